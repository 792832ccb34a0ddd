"""Which records of one batch stay after compaction.

These are generators, so that a large batch does not block the event loop: they yield the number of
records processed since the last step.
"""

from collections.abc import Generator, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from chiplog_broker.storage.compaction.key_map import KeyMap
from chiplog_broker.storage.compaction.transactions import PassedTransactions
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    NO_TIMESTAMP,
    BatchHeader,
)
from chiplog_wire.records.control import read_marker
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.scan import (
    ScannedRecord,
    attributes_and_rest,
    payload_of,
    scan_payload,
)
from chiplog_wire.records.writer import encode_varint, pack_batch

_HELD_RECORDS: Final = 20_000
"""The scanned records of larger batches are not held in memory: such batches are scanned twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The values by which a pass decides what stays."""

    keys: KeyMap
    now_ms: int
    delete_retention_ms: int
    remembered_batches: Set[int]
    """The last offsets of the batches that are needed to detect retries of producers."""
    marker_epochs: Mapping[int, int] = field(default_factory=dict)
    """By producer id: the epochs that only end markers of this epoch show."""
    transactions: PassedTransactions = field(default_factory=PassedTransactions)
    """The transactions of the batches that the pass comes to, one after the other."""

    def needs_batch(self, header: BatchHeader, end_offset: int) -> bool:
        """Whether a batch stays even without records; `end_offset` is that of its new segment.

        The last batch of a segment stays so that the segment's end offset does not change.
        """
        last_offset = header.last_offset
        if last_offset in self.remembered_batches or last_offset + 1 == end_offset:
            return True
        if not header.is_control:
            return False
        return self.marker_epochs.get(header.producer_id) == header.producer_epoch

    def of(self, records: list[ScannedRecord], header: BatchHeader) -> list[ScannedRecord]:
        """The records of a batch that stay. A tombstone does not stay if the delete horizon of its
        batch, a time that an earlier pass wrote into the header, has passed."""
        horizon_ms = header.delete_horizon_ms
        is_past = horizon_ms is not None and self.now_ms >= horizon_ms
        return self.keys.retained(records, header.base_offset, drops_tombstones=is_past)


def index_batch(
    keys: KeyMap, batch: memoryview, header: BatchHeader, from_offset: int
) -> Generator[int, None, None]:
    """Add the keys of a batch to the map, except those of records below `from_offset`.

    Yields after each portion of work its size in records, so that the caller can make a pause.

    A client may have sent a batch with invalid records while the topic was not compacted. Such a
    batch stays as it is, and none of its keys is added, so that it removes no older records. To
    know that before the first key is added, the whole batch is scanned first.
    """
    held: list[list[ScannedRecord]] = []
    holds = header.record_count <= _HELD_RECORDS
    try:
        payload = payload_of(batch, header)
        for records in scan_payload(payload, header.record_count):
            if holds:
                held.append(records)
            yield len(records)
    except RecordsError:
        keys.passed(header.last_offset)
        return
    for records in held if holds else scan_payload(payload, header.record_count):
        keys.index(records, header.base_offset, from_offset)
        if keys.is_full:
            return
        yield len(records) // 4  # much cheaper than scanning the records
    keys.passed(header.last_offset)


def has_no_keys(transactions: PassedTransactions, batch: memoryview, header: BatchHeader) -> bool:
    """Whether the next batch has no keys by which older records are removed: it is a control batch,
    or belongs to an aborted transaction."""
    if header.is_control:
        if header.record_count and read_marker(batch, header) is not None:
            transactions.end(header)
            transactions.kept.clear()
        return True
    return header.is_transactional and transactions.is_aborted(header)


def rewrite_batch(
    rules: RetentionRules, batch: memoryview, header: BatchHeader, end_offset: int
) -> Generator[int, None, Buffer | None]:
    """Compact a batch; `end_offset` is that of its new segment.

    Yields after each portion of work its size in records, so that the caller can make a pause.
    Returns the same object if nothing is removed, None if the batch does not stay.
    """
    is_covered = header.base_offset <= rules.keys.latest_offset  # by the key map
    if header.is_control:
        return (yield from _rewrite_marker(rules, batch, header, end_offset, is_covered=is_covered))
    is_aborted = header.is_transactional and rules.transactions.is_aborted(header)
    if not is_covered:
        return batch
    if is_aborted or not header.record_count:
        return _without_records(rules, batch, header, end_offset)
    return (yield from _rewrite_records(rules, batch, header, end_offset))


def _rewrite_records(
    rules: RetentionRules, batch: memoryview, header: BatchHeader, end_offset: int
) -> Generator[int, None, Buffer | None]:
    """Compact a batch of records with keys, as `rewrite_batch` does."""
    try:
        left = yield from _retained_records(rules, batch, header)
    except RecordsError:
        return batch  # invalid records stay as they are
    if not left.count:
        return _without_records(rules, batch, header, end_offset)
    # The first pass that covers the complete batch sets the time until which its tombstones stay.
    if (
        left.has_tombstones
        and header.delete_horizon_ms is None
        and header.last_offset <= rules.keys.latest_offset
    ):
        horizon_ms = rules.now_ms + rules.delete_retention_ms
        return (yield from _with_horizon(header, left, horizon_ms))
    return batch if left.count == header.record_count else left.packed(header)


def _rewrite_marker(
    rules: RetentionRules,
    batch: memoryview,
    header: BatchHeader,
    end_offset: int,
    *,
    is_covered: bool,
) -> Generator[int, None, Buffer | None]:
    """Compact a control batch, as `rewrite_batch` does; `is_covered`: the pass may change it."""
    if header.record_count:
        if read_marker(batch, header) is None or rules.transactions.end(header) or not is_covered:
            return batch
        if header.delete_horizon_ms is None:
            payload = payload_of(batch, header)
            delta_ms = header.max_timestamp_ms - header.base_timestamp_ms
            left = _RetainedRecords(bytearray(payload), header.record_count, delta_ms)
            horizon_ms = rules.now_ms + rules.delete_retention_ms
            return (yield from _with_horizon(header, left, horizon_ms))
        if rules.now_ms < header.delete_horizon_ms:
            return batch
    elif not is_covered:
        return batch
    return _without_records(rules, batch, header, end_offset)


def _without_records(
    rules: RetentionRules, batch: memoryview, header: BatchHeader, end_offset: int
) -> Buffer | None:
    """The batch without records; None if it does not stay."""
    if not rules.needs_batch(header, end_offset):
        return None
    return empty_batch(header) if header.record_count else batch


def empty_batch(header: BatchHeader) -> Buffer:
    """The batch without records; its offsets, epoch, producer and largest timestamp stay."""
    return pack_batch(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_MASK),
            base_timestamp_ms=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


@dataclass(slots=True)
class _RetainedRecords:
    """The encoded records of a batch that stay. Their offset and timestamp deltas still refer to
    the base values of the old batch."""

    payload: bytearray
    count: int = 0
    newest_delta_ms: int | None = None
    has_tombstones: bool = False

    def packed(self, header: BatchHeader) -> Buffer:
        """The batch with only these records. Its largest timestamp is set to theirs, unless the
        broker sets the timestamps (LogAppendTime), which are the same for all records."""
        newest_ms = header.max_timestamp_ms
        if not header.is_log_append_time and self.newest_delta_ms is not None:
            newest_ms = header.base_timestamp_ms + self.newest_delta_ms
        changed = header._replace(max_timestamp_ms=newest_ms, record_count=self.count)
        return pack_batch(changed, self.payload)


def _retained_records(
    rules: RetentionRules, batch: memoryview, header: BatchHeader
) -> Generator[int, None, _RetainedRecords]:
    """Collect the encoded records of a batch that stay. Raises `RecordsError`."""
    payload = payload_of(batch, header)
    left = _RetainedRecords(bytearray())
    for records in scan_payload(payload, header.record_count):
        kept = rules.of(records, header)
        if kept:
            left.count += len(kept)
            for begin, end in _adjacent_ranges(kept):
                left.payload += payload[begin:end]
            newest_delta_ms = max(record[3] for record in kept)  # [3]: the timestamp delta
            if left.newest_delta_ms is None or newest_delta_ms > left.newest_delta_ms:
                left.newest_delta_ms = newest_delta_ms
            left.has_tombstones |= any(record[5] for record in kept)  # [5]: whether it is one
        yield len(records)
    return left


def _with_horizon(
    header: BatchHeader, left: _RetainedRecords, horizon_ms: int
) -> Generator[int, None, Buffer]:
    """The batch with the retained records and a delete horizon, the time until which tombstones
    stay.

    The record format stores the horizon in place of the base timestamp, so all timestamp deltas are
    written again.
    """
    payload = bytes(left.payload)
    shift_ms = header.base_timestamp_ms - horizon_ms
    shifted = bytearray()
    for records in scan_payload(payload, left.count):
        for _, start, end, delta_ms, _, _ in records:
            attributes, rest = attributes_and_rest(payload, start)
            body = attributes + encode_varint(delta_ms + shift_ms) + payload[rest:end]
            shifted += encode_varint(len(body)) + body
        yield len(records)
    newest_delta_ms = None
    if left.newest_delta_ms is not None:
        newest_delta_ms = left.newest_delta_ms + shift_ms
    changed = header._replace(
        attributes=header.attributes | DELETE_HORIZON_MASK, base_timestamp_ms=horizon_ms
    )
    return _RetainedRecords(shifted, left.count, newest_delta_ms).packed(changed)


def _adjacent_ranges(records: list[ScannedRecord]) -> Iterator[tuple[int, int]]:
    """The byte ranges (start, end) of the records; adjacent records are joined to one range."""
    begin = until = records[0][1]
    for _, start, end, _, _, _ in records:
        if start > until:
            yield begin, until
            begin = start
        until = end
    yield begin, until
