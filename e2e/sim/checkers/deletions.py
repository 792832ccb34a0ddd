"""Whether a missing record was deleted rightly, and by which rule.

Rules are: `retention.ms` or `retention.bytes`, if a user set it and a broker applied it; a user's
DeleteRecords; and compaction, if a later record has the same key. They are evaluated with the time
and size of the batches that brokers stored.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from e2e.sim.checkers.anomaly import events_of
from e2e.sim.history import POLL_S, Append, Event, History, InForce, Kind

CHECK_MS: Final = 2_000
"""Tolerance for ages: brokers' clocks are read every 0.5 s, and may run at double speed."""
OVERLAPPING: Final = 16
"""The most batches before an offset that are searched for one that holds the offset. A batch with
a greater base offset may end before it, if it was truncated or merged by compaction."""
DAY_MS: Final = 24 * 3600 * 1000
ANYBODYS: Final = {("retention.ms", str(7 * DAY_MS)), ("retention.bytes", "-1")}
"""The defaults of retention, which hold without a user's settings."""


class Stored(NamedTuple):
    """A batch as a broker first wrote it, and its place among the partition's bytes."""

    base_offset: int
    last_offset: int
    newest_ms: int
    at_s: float
    end_bytes: int
    """Bytes of all batches of the partition from the first to this one."""


class Deletions:
    """Finds the rule by which a record of this history was deleted rightly."""

    def __init__(self, history: History) -> None:
        """Collect what is needed: batches, policies in force, and offsets of records."""
        self._history = history
        self._batches = {label: _stored(all_) for label, all_ in _by_partition(history).items()}
        self._in_force: dict[str, list[InForce]] = defaultdict(list)
        for one in history.in_force:
            self._in_force[one.partition].append(one)
        self._latest = _latest_of_keys(history)
        self.offsets = _offsets(history)
        self._values: dict[str, dict[int, str]] = defaultdict(dict)
        for (partition, value), offset in self.offsets.items():
            self._values[partition][offset] = value

    def why(self, partition: str, offset: int, value: str = "") -> str:
        """The rule by which this record may have been deleted, as text; empty if there is none."""
        return next(self._reasons(partition, offset, value), "")

    def why_below(self, partition: str, offset: int) -> str:
        """The rule by which a log may begin after this offset, as text; empty if there is none.

        Only retention and DeleteRecords move the beginning of a log. But if compaction removed
        whole batches before, the age and size of a segment are those of the remaining batches: so
        the first batch that compaction did not remove decides.
        """
        reason = next(self._by_log_start_rules(partition, offset), "")
        while not reason:
            after = self._after_compacted(partition, offset)
            if after is None:
                return ""
            offset = after
            reason = next(self._by_log_start_rules(partition, offset), "")
        return reason

    def _after_compacted(self, partition: str, offset: int) -> int | None:
        """The offset after this batch if compaction may remove all of its records; else None."""
        batch = self._batch(partition, offset)
        if batch is None:
            return None
        values = self._values[partition]
        for one in range(batch.base_offset, batch.last_offset + 1):
            if one not in values or not next(self._by_compaction(partition, one, values[one]), ""):
                return None
        return batch.last_offset + 1

    def why_event(self, event: Event) -> str:
        """The rule by which the record of a client's event may have been deleted; empty if none.

        The acknowledgement of a duplicate has no offset. Then the offset at which the record was
        read or written is used. If that is unknown, too, it is the earliest possible one: the one
        after the producer's records that were acknowledged before.
        """
        offset = event.offset
        if offset < 0:
            offset = self.offsets.get((event.partition, event.value), -1)
        if offset < 0:
            earlier = [
                one.offset
                for one in events_of(self._history, Kind.ACKED)
                if (one.client, one.partition) == (event.client, event.partition)
                and one.offset >= 0
                and one.at_s <= event.at_s
            ]
            offset = max(earlier, default=-1) + 1
        return self.why(event.partition, offset, event.value)

    def _reasons(self, partition: str, offset: int, value: str) -> Iterator[str]:
        """Every rule, as text, by which this record may have been deleted."""
        yield from self._by_log_start_rules(partition, offset)
        yield from self._by_compaction(partition, offset, value)

    def _by_log_start_rules(self, partition: str, offset: int) -> Iterator[str]:
        """Which DeleteRecords requests and retention rules explain that the record is gone."""
        yield from self._by_request(partition, offset)
        batch = self._batch(partition, offset)
        if batch is not None:
            yield from self._by_policy(partition, batch)

    def _batch(self, partition: str, offset: int) -> Stored | None:
        """The batch that contains an offset; None if no broker wrote one.

        It need not be the last batch that begins at or before the offset: see `OVERLAPPING`.
        """
        batches = self._batches.get(partition, [])
        end = bisect_right(batches, offset, key=lambda one: one.base_offset)
        near = reversed(batches[max(end - OVERLAPPING, 0) : end])
        return next((one for one in near if offset <= one.last_offset), None)

    def _by_request(self, partition: str, offset: int) -> Iterator[str]:
        """The DeleteRecords requests that explain that this offset is gone.

        A request beyond the end of the log is refused, so it explains nothing.
        """
        batches = self._batches.get(partition, [])
        end = batches[-1].last_offset + 1 if batches else self._history.ends.get(partition, 0)
        made_s = self._history.made.get(partition, 0.0)
        for one in self._history.deletes_asked:
            is_this = partition.partition("/")[0] == f"{one.topic}-{one.number}"
            if is_this and one.at_s >= made_s and offset < one.offset <= end:
                yield f"DeleteRecords below {one.offset}, t={one.at_s:.3f}"

    def _by_policy(self, partition: str, batch: Stored) -> Iterator[str]:
        """The retention policies, applied by a broker and set by a user, that explain that this
        batch is gone."""
        for one in self._in_force[partition]:
            policy = one.policy
            until_s = one.to_s + POLL_S  # it may have been in force until just before the next poll
            if not policy.deletes or until_s < batch.at_s:
                continue
            # The greatest age at which a broker may have seen the batch under this policy.
            age_ms = one.newest_ms + CHECK_MS - batch.newest_ms
            if 0 <= policy.retention_ms < age_ms and self._was_asked(
                partition, "retention.ms", policy.retention_ms
            ):
                yield f"retention.ms={policy.retention_ms}: {age_ms} ms old, t={one.to_s:.3f}"
            # Size retention deletes a batch only if the bytes after it reach the limit without it.
            # Negative limits mean "unlimited", here and above.
            after_bytes = self._bytes_until(partition, until_s) - batch.end_bytes
            if 0 <= policy.retention_bytes <= after_bytes and self._was_asked(
                partition, "retention.bytes", policy.retention_bytes
            ):
                yield f"retention.bytes={policy.retention_bytes}: {after_bytes} bytes after it"

    def _was_asked(self, partition: str, key: str, value: int) -> bool:
        """Whether this value was ever set for the topic, or is the default."""
        topic = partition.partition("/")[0].rpartition("-")[0]
        asked = self._history.asked_policies.get(topic, set())
        return (key, str(value)) in asked | ANYBODYS

    def _bytes_until(self, partition: str, until_s: float) -> int:
        """Bytes of all batches of the partition that were written by `until_s`."""
        return max(
            (one.end_bytes for one in self._batches[partition] if one.at_s <= until_s), default=0
        )

    def _by_compaction(self, partition: str, offset: int, value: str) -> Iterator[str]:
        """Why compaction may have removed this record: a later record has its key, or it is a
        tombstone older than `delete.retention.ms`."""
        compacting = [one for one in self._in_force[partition] if one.policy.compacts]
        key = self._history.keys.get(value, "")
        if not (compacting and key):
            return
        latest = self._latest.get((partition, key), -1)
        if latest > offset:
            yield f"compaction: a later record at offset {latest} has the same key {key}"
        batch = self._batch(partition, offset)
        if batch is None or value not in self._history.tombstones:
            return
        for one in compacting:
            written_ms = self._history.wall_ms(batch.at_s) - self._history.clock_lag_ms
            waited_ms = one.newest_ms + CHECK_MS - written_ms
            if one.to_s >= batch.at_s and waited_ms >= one.policy.delete_retention_ms:
                yield f"delete.retention.ms={one.policy.delete_retention_ms}: {waited_ms} ms"


def _by_partition(history: History) -> dict[str, dict[int, Append]]:
    """Partition -> base offset -> the first append of the batch there.

    Of two batches at one offset it is the one written last. Offset and leader epoch identify a
    batch, not its bytes: a replica that copies it after compaction writes other bytes, but the
    batch is as old as before.
    """
    first: dict[tuple[str, int, int], Append] = {}
    found: dict[str, dict[int, Append]] = defaultdict(dict)
    for one in history.appends:
        batch = one.partition, one.base_offset, one.leader_epoch
        found[one.partition][one.base_offset] = first.setdefault(batch, one)
    return found


def _stored(batches: dict[int, Append]) -> list[Stored]:
    """The batches of one partition in the order of offsets, with their cumulative sizes."""
    found: list[Stored] = []
    end_bytes = 0
    for _, one in sorted(batches.items()):
        end_bytes += one.size_bytes
        found.append(Stored(one.base_offset, one.last_offset, one.newest_ms, one.at_s, end_bytes))
    return found


def _offsets(history: History) -> dict[tuple[str, str], int]:
    """(partition, value) -> its offset, as a client saw it, else as a broker wrote it."""
    seen = {
        (one.partition, one.value): one.offset
        for one in history.events
        if one.kind in {Kind.ACKED, Kind.READ} and one.offset >= 0
    }
    return history.placed | seen


def _latest_of_keys(history: History) -> dict[tuple[str, str], int]:
    """(partition, key) -> the largest known offset of a record with this key."""
    found: dict[tuple[str, str], int] = {}
    if not history.keys:
        return found

    def note(partition: str, value: str, offset: int) -> None:
        """Count a record at this offset, if it is below the final high watermark."""
        if offset >= history.ends.get(partition, offset + 1):
            return  # it may have been truncated
        place = partition, history.keys.get(value, "")
        found[place] = max(found.get(place, -1), offset)

    for (partition, value), offset in _offsets(history).items():
        note(partition, value, offset)
    for partition, stored in history.final.items():
        for offset, value in stored:
            note(partition, value, offset)
    return found
