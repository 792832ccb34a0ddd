"""Keys that were deleted stay deleted for readers of a compacted topic from its beginning."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History, Kind


class Known(NamedTuple):
    """A record with a key, and where it stands."""

    offset: int
    value: str


class Seen(NamedTuple):
    """The latest record with its key that a reader has seen since it sought."""

    offset: int
    value: str
    at_s: float


Passes = Mapping[tuple[str, str], dict[str, Seen]]


def deleted_key_back(history: History) -> Iterator[Anomaly]:
    """The last reader, who is quick, saw an older value of a key that an acknowledged tombstone
    had deleted, and neither the tombstone nor anything newer.

    A tombstone goes only after everything older of its key. Other readers may be so slow that it
    goes between the two, which `delete.retention.ms` bounds; and one that has not come to the end
    may miss a tombstone in whose place there is a newer record of the key already, further on:
    of a key only the last one stays. They are excused by these two only.

    All are excused where a replica copied on behind the tombstone after `delete.retention.ms`: it
    had been away for longer, and leads with the value (docs/guarantees.md).
    """
    if not history.tombstones:
        return
    records = _acknowledged(history)
    for partition, stored in sorted(history.final.items()):
        seen: dict[str, Seen] = {}
        for offset, value in stored:
            if key := history.keys.get(value):
                seen[key] = Seen(offset, value, 0.0)
        end = history.ends.get(partition, 0)
        yield from _came_back(history, records, ("the last reader", partition), seen, end)
    yield from _slow_readers(history, records)


def _slow_readers(
    history: History, records: Mapping[tuple[str, str], Sequence[Known]]
) -> Iterator[Anomaly]:
    """Each pass of each reader, from where it sought to where it sought again or ended."""
    seen: dict[tuple[str, str], dict[str, Seen]] = defaultdict(dict)
    ends: dict[tuple[str, str], tuple[int, float]] = {}
    for one in history.events:
        who = one.client, one.partition
        if one.kind is Kind.SOUGHT:
            end, at_s = ends.pop(who, (0, 0.0))
            yield from _came_back(history, records, who, seen.pop(who, {}), end, at_s)
        elif one.kind is Kind.READ:
            ends[who] = one.offset + 1, one.at_s
            if key := history.keys.get(one.value):
                seen[who][key] = Seen(one.offset, one.value, one.at_s)
    for who, (end, at_s) in ends.items():
        yield from _came_back(history, records, who, seen[who], end, at_s)


def _came_back(
    history: History,
    records: Mapping[tuple[str, str], Sequence[Known]],
    who: tuple[str, str],
    seen: Mapping[str, Seen],
    end: int,
    at_s: float = 0.0,
) -> Iterator[Anomaly]:
    name, partition = who
    if partition in history.deleted:
        return
    for key, one in sorted(seen.items()):
        known = records.get((partition, key), ())
        at = bisect_right(known, end - 1, key=lambda record: record.offset) - 1
        latest = known[at] if at >= 0 else None
        if latest is None or latest.offset <= one.offset or latest.value not in history.tombstones:
            continue
        newer = known[at + 1] if at + 1 < len(known) else None
        if newer is not None and _written_s(history, partition, newer) <= at_s:
            continue
        if _was_copied_too_late(history, partition, latest):
            continue
        if not _was_slow(history, partition, one, at_s):
            what = f"{name} saw {one.value} at {one.offset}, not its end at {latest.offset}"
            yield Anomaly("deleted-key-back", partition, f"{key}: {what}")


def _written_s(history: History, partition: str, record: Known) -> float:
    """When a broker wrote it first, as far as its place says."""
    return min(
        (
            one.at_s
            for one in history.appends
            if one.partition == partition and one.base_offset <= record.offset <= one.last_offset
        ),
        default=inf,
    )


def _was_copied_too_late(history: History, partition: str, tombstone: Known) -> bool:
    """Whether some broker's copy went on without it when it had been there for so long.

    The copy steps over its batch, or holds what compaction left of that.
    """
    written_s = _written_s(history, partition, tombstone)
    if written_s == inf:
        return False
    written = Seen(*tombstone, written_s)
    ends: dict[str, int] = {}
    known: set[int] = set()
    for one in history.appends:
        if one.partition != partition:
            continue
        broker = one.process.partition("#")[0]
        lacks_it = ends.get(broker, inf) <= tombstone.offset < one.base_offset
        if one.base_offset <= tombstone.offset <= one.last_offset:
            lacks_it = bool(known) and one.digest not in known
            known.add(one.digest)
        if lacks_it and _was_slow(history, partition, written, one.at_s):
            return True
        ends[broker] = one.last_offset + 1
    return False


def _was_slow(history: History, partition: str, one: Seen, at_s: float) -> bool:
    """Whether `delete.retention.ms` passed, by some broker's clock, between value and end."""
    if not one.at_s:
        return False
    since_ms = history.wall_ms(one.at_s) - history.clock_lag_ms
    return any(
        force.policy.compacts
        and force.to_s >= one.at_s
        and min(force.newest_ms, history.wall_ms(at_s) + history.clock_lead_ms) - since_ms
        >= force.policy.delete_retention_ms
        for force in history.in_force
        if force.partition == partition
    )


def _acknowledged(history: History) -> dict[tuple[str, str], list[Known]]:
    """(partition, key) -> its records that somebody knows to be safe, in their order."""
    found: dict[tuple[str, str], set[Known]] = defaultdict(set)
    for one in history.events:
        if one.kind in {Kind.ACKED, Kind.READ} and one.offset >= 0 and one.value in history.keys:
            place = one.partition, history.keys[one.value]
            found[place].add(Known(one.offset, one.value))
    for partition, stored in history.final.items():
        for offset, value in stored:
            if value in history.keys:
                found[partition, history.keys[value]].add(Known(offset, value))
    return {place: sorted(all_) for place, all_ in found.items()}
