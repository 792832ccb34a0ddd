"""What readers were shown: only what was sent, only what stays, everything and in order."""

from collections.abc import Collection, Iterator

from e2e.sim.checkers.anomaly import Anomaly, all_reads, events_of
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import Event, History, Kind


def never_sent(history: History) -> Iterator[Anomaly]:
    """Read although nobody sent it there."""
    sent = {(one.partition, one.value) for one in events_of(history, Kind.SENT)}
    names: dict[str, set[str]] = {}
    for partition, value in sent:
        names.setdefault(value, set()).add(partition)
    for partition, offset, value, who in all_reads(history):
        if (partition, value) not in sent and not _same_name(partition, names.get(value, ())):
            yield Anomaly("never-sent", partition, f"{who} read {value!r} at {offset}")


def old_in_new(history: History) -> Iterator[Anomaly]:
    """A record of a deleted topic in the one that was made under its name.

    Produce names topics, so what is under way while a topic is replaced may land in the new
    one. What was answered before the new one was asked for may not.
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
    """Whether one of them has the same topic name and number; ids follow a slash."""
    name, slash, _ = partition.partition("/")
    return bool(slash) and any(other.partition("/")[0] == name for other in others)


def dirty_read(history: History) -> Iterator[Anomaly]:
    """Read, and not there at the end, though no rule let it go: it was shown before it was safe."""
    letting_go: Deletions | None = None
    stored = {partition: set(all_) for partition, all_ in history.final.items()}
    for one in events_of(history, Kind.READ):
        there = stored.get(one.partition)
        if there is None or one.partition in history.deleted or (one.offset, one.value) in there:
            continue
        letting_go = letting_go or Deletions(history)
        if not letting_go.why_event(one):
            what = f"{one.client} read {one.value} at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("dirty-read", one.partition, what)


def polls(history: History) -> Iterator[Anomaly]:
    """A reader that did not seek skipped offsets or went back (`poll-skip`, `nonmonotonic-poll`).

    Offsets have no gaps but where compaction let each record go that is known to have stood there.
    """
    at: dict[tuple[str, str], int] = {}
    gaps: Gaps | None = None
    for one in history.events:
        key = (one.client, one.partition)
        if one.kind is Kind.SOUGHT:
            at[key] = one.offset
        elif one.kind is Kind.READ:
            expected = at.get(key, one.offset)
            if one.offset > expected and history.has_compacted(one.partition):
                gaps = gaps or Gaps(history)
                expected = gaps.unexplained(one.partition, expected, one.offset)
            if one.offset != expected:
                name = "poll-skip" if one.offset > expected else "nonmonotonic-poll"
                what = f"{one.client} expected {expected} and read {one.offset}"
                yield Anomaly(name, one.partition, what)
            at[key] = one.offset + 1


class Gaps:
    """What is known to have stood where a reader found nothing."""

    def __init__(self, history: History) -> None:
        self._letting_go = Deletions(history)
        self._values = {
            (partition, offset): value
            for (partition, value), offset in self._letting_go.offsets.items()
        }

    def unexplained(self, partition: str, begin: int, end: int) -> int:
        """The first offset of a record that no rule deleted; the end where there is none."""
        for offset in range(begin, end):
            value = self._values.get((partition, offset))
            if value is not None and not self._letting_go.why(partition, offset, value):
                return offset
        return end


def out_of_range(history: History) -> Iterator[Anomaly]:
    """A reader that did nothing wrong got OFFSET_OUT_OF_RANGE.

    Below the log start it may be, where a rule deleted what was there: retention is quicker than a
    slow reader.
    """
    letting_go: Deletions | None = None
    for one in events_of(history, Kind.OUT_OF_RANGE):
        if one.partition in history.deleted:
            continue
        letting_go = letting_go or Deletions(history)
        if not letting_go.why_below(one.partition, one.offset):
            what = f"{one.client} was out of range at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("out-of-range", one.partition, what)


def end_regression(history: History) -> Iterator[Anomaly]:
    """The end for readers went back before the eyes of one of them, or lay below what it read."""
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
