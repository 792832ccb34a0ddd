"""What consumers read: only sent and committed records, without gaps and in order."""

from collections.abc import Collection, Iterator

from e2e.sim.checkers.anomaly import Anomaly, all_reads, events_of
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import Event, History, Kind


def never_sent(history: History) -> Iterator[Anomaly]:
    """A record was read from a partition to which nobody sent it.

    A partition of the same name and number counts as the same: requests name topics.
    """
    sent = {(one.partition, one.value) for one in events_of(history, Kind.SENT)}
    names: dict[str, set[str]] = {}
    for partition, value in sent:
        names.setdefault(value, set()).add(partition)
    for partition, offset, value, who in all_reads(history):
        if (partition, value) not in sent and not _same_name(partition, names.get(value, ())):
            yield Anomaly("never-sent", partition, f"{who} read {value!r} at {offset}")


def old_in_new(history: History) -> Iterator[Anomaly]:
    """A record of a deleted topic is in the topic that was created again under its name.

    Produce requests name topics, so a record in flight while a topic is replaced may be stored in
    the new one. A record that was answered or read before the new topic was requested must not.
    """
    answered: dict[str, Event] = {}
    for one in history.events:
        if one.kind in {Kind.ACKED, Kind.FAILED, Kind.READ}:
            answered.setdefault(one.value, one)
    for partition, offset, value, who in all_reads(history):
        first = answered.get(value)
        made_s = history.made.get(partition, 0.0)
        if first is not None and first.partition != partition and first.at_s < made_s:
            what = f"{who} read {value} at {offset}, which was in {first.partition} before"
            yield Anomaly("old-in-new", partition, what)


def _same_name(partition: str, others: Collection[str]) -> bool:
    """Whether one of the other labels has the same topic name and number before the slash."""
    name, slash, _ = partition.partition("/")
    return bool(slash) and any(other.partition("/")[0] == name for other in others)


def dirty_read(history: History) -> Iterator[Anomaly]:
    """A record was read, is missing at the end, and no rule deleted it.

    So it was served to a consumer before it was committed.
    """
    deletions: Deletions | None = None
    stored = {partition: set(all_) for partition, all_ in history.final.items()}
    for one in events_of(history, Kind.READ):
        there = stored.get(one.partition)
        if there is None or one.partition in history.deleted or (one.offset, one.value) in there:
            continue
        deletions = deletions or Deletions(history)
        if not deletions.why_event(one):
            what = f"{one.client} read {one.value} at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("dirty-read", one.partition, what)


def polls(history: History) -> Iterator[Anomaly]:
    """A consumer skipped offsets or went back without a seek (`poll-skip`, `nonmonotonic-poll`).

    A gap is allowed only if no record is known to have been there, or compaction may have removed
    each: markers of transactions take offsets, too.
    """
    next_offsets: dict[tuple[str, str], int] = {}
    gaps: Gaps | None = None
    for one in history.events:
        key = (one.client, one.partition)
        if one.kind is Kind.SOUGHT:
            next_offsets[key] = one.offset
        elif one.kind is Kind.READ:
            expected = next_offsets.get(key, one.offset)
            if one.offset > expected and history.has_gaps(one.partition):
                gaps = gaps or Gaps(history)
                expected = gaps.unexplained(one.partition, expected, one.offset)
            if one.offset != expected:
                name = "poll-skip" if one.offset > expected else "nonmonotonic-poll"
                what = f"{one.client} expected {expected} and read {one.offset}"
                yield Anomaly(name, one.partition, what)
            next_offsets[key] = one.offset + 1


class Gaps:
    """Finds records that are known to have been at offsets which a consumer did not get."""

    def __init__(self, history: History) -> None:
        self._deletions = Deletions(history)
        self._values = {
            (partition, offset): value
            for (partition, value), offset in self._deletions.offsets.items()
        }
        for partition, stored in history.final.items():
            self._values |= {(partition, offset): value for offset, value in stored}

    def unexplained(self, partition: str, begin: int, end: int) -> int:
        """The first offset from `begin` on with a record that no rule deleted; `end` for none."""
        for offset in range(begin, end):
            value = self._values.get((partition, offset))
            if value is not None and not self._deletions.why(partition, offset, value):
                return offset
        return end


def out_of_range(history: History) -> Iterator[Anomaly]:
    """A consumer got OFFSET_OUT_OF_RANGE for an offset that must be there.

    It is correct for an offset below which a rule deleted everything: retention may be faster than
    a slow consumer.
    """
    deletions: Deletions | None = None
    for one in events_of(history, Kind.OUT_OF_RANGE):
        if one.partition in history.deleted:
            continue
        deletions = deletions or Deletions(history)
        if not deletions.why_below(one.partition, one.offset):
            what = f"{one.client} was out of range at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("out-of-range", one.partition, what)


def end_regression(history: History) -> Iterator[Anomaly]:
    """A consumer got a high watermark below an earlier one, or below a record that it had read."""
    furthest: dict[tuple[str, str], int] = {}
    for one in history.events:
        key = (one.client, one.partition)
        known = furthest.get(key, 0)
        if one.kind is Kind.READ:
            furthest[key] = max(known, one.offset + 1)
        elif one.kind is Kind.END:
            furthest[key] = max(known, one.offset)
            if one.offset < known:
                what = f"{one.client} saw the end at {known} and then at {one.offset}"
                yield Anomaly("end-regression", one.partition, f"{what}, t={one.at_s:.3f}")
