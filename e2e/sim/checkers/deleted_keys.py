"""Deleted keys of a compacted topic stay deleted for a consumer that reads it from the start."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History, Kind


class Known(NamedTuple):
    """A record with a key: its offset and its unique value."""

    offset: int
    value: str


class Seen(NamedTuple):
    """The latest record of a key that a reader has seen since its last seek."""

    offset: int
    value: str
    at_s: float


Passes = Mapping[tuple[str, str], dict[str, Seen]]


def deleted_key_back(history: History) -> Iterator[Anomaly]:
    """A reader saw an old value of a key, but neither the acknowledged tombstone that deleted it
    nor a newer record.

    Compaction removes a tombstone only after all older records of its key. Exceptions are:
    a reader that needed longer than `delete.retention.ms` from the old value to the tombstone;
    a reader that did not read to the end, if a newer record replaced the tombstone; and a replica
    that was away for longer than `delete.retention.ms`, or whose volume was replaced by a snapshot
    that old: it did not copy the tombstone, and leads with the old value (docs/guarantees.md). The
    final reader is quick, so only the last exception holds for it.
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
        yield from _undeleted_keys(history, records, ("the last reader", partition), seen, end)
    yield from _slow_readers(history, records)


def _slow_readers(
    history: History, records: Mapping[tuple[str, str], Sequence[Known]]
) -> Iterator[Anomaly]:
    """The anomalies of consumers; `records` are all acknowledged ones by (partition, key).

    Checked is each pass of a consumer over a partition: from a seek to the next one, or its end.
    """
    seen: dict[tuple[str, str], dict[str, Seen]] = defaultdict(dict)
    ends: dict[tuple[str, str], tuple[int, float]] = {}
    for one in history.events:
        who = one.client, one.partition
        if one.kind is Kind.SOUGHT:
            end, at_s = ends.pop(who, (0, 0.0))
            yield from _undeleted_keys(history, records, who, seen.pop(who, {}), end, at_s)
        elif one.kind is Kind.READ:
            ends[who] = one.offset + 1, one.at_s
            if key := history.keys.get(one.value):
                seen[who][key] = Seen(one.offset, one.value, one.at_s)
    for who, (end, at_s) in ends.items():
        yield from _undeleted_keys(history, records, who, seen[who], end, at_s)


def _undeleted_keys(
    history: History,
    records: Mapping[tuple[str, str], Sequence[Known]],
    who: tuple[str, str],
    seen: Mapping[str, Seen],
    end: int,
    at_s: float = 0.0,
) -> Iterator[Anomaly]:
    """The anomalies of one reader's pass over a partition, up to the offset `end`, at `at_s`.

    `who` is (reader, partition), `records` all acknowledged ones by (partition, key), and `seen`
    the reader's latest record of each key. `at_s` is 0 for the final reader.
    """
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
    """When a broker first wrote a batch with this record's offset; infinite if none did."""
    return min(
        (
            one.at_s
            for one in history.appends
            if one.partition == partition and one.base_offset <= record.offset <= one.last_offset
        ),
        default=inf,
    )


def _was_copied_too_late(history: History, partition: str, tombstone: Known) -> bool:
    """Whether a broker copied the log after `delete.retention.ms`, when the tombstone was gone:
    it continued its log beyond the tombstone's offset, and has no record there."""
    written_s = _written_s(history, partition, tombstone)
    if written_s == inf:
        return False
    written = Seen(*tombstone, written_s)
    return any(
        tombstone.offset in one.skipped and _was_slow(history, partition, written, one.at_s)
        for one in history.appends
        if one.partition == partition
    )


def _was_slow(history: History, partition: str, one: Seen, at_s: float) -> bool:
    """Whether `delete.retention.ms` passed by some broker's clock from when `one` was seen until
    `at_s`; False for the final reader."""
    if not one.at_s:
        return False
    # The longest possible time by a broker's clock: from the slowest clock's reading when `one` was
    # seen to the fastest clock's at `at_s`, or to the last reading while the policy was in force.
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
    """(partition, key) -> its records that were acknowledged or read, in the order of offsets."""
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
