"""The batches by which a coordinator changes its partition of `__consumer_offsets`.

Callers make records first and batches of them afterwards. Records that must be written together are
passed to `to_batches` together; they are in one batch if they fit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from chiplog_broker.groups.group_value import encode_group_value
from chiplog_broker.groups.keys import (
    READ_MARK,
    DoneResetKey,
    GroupMetadataKey,
    GroupRetentionKey,
    Key,
    OffsetCommitKey,
    encode_key,
)
from chiplog_broker.groups.offset_value import CommittedOffset, encode_offset_value
from chiplog_broker.groups.reset_value import DoneReset, encode_reset_value
from chiplog_broker.groups.retention_value import encode_retention_value
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.protocol.reader import INT16
from chiplog_wire.records.batch import HEADER_BYTES
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.writer import (
    DEFAULT_OPTIONS,
    NOT_IDEMPOTENT,
    BatchOptions,
    NewRecord,
    Producer,
    build_batch,
)

_FRAME_BYTES_MAX: Final = 32
"""The maximum size of the other parts of a record than key and value: attributes, number of
headers, and five varints of at most 5 bytes, or 10 for the timestamp."""


def commit_records(
    group: str, commits: Mapping[TopicPartition, CommittedOffset], now_ms: int
) -> list[NewRecord]:
    """The records of one OffsetCommit or TxnOffsetCommit. Raises `UnstorableGroupRecordError`."""
    return [
        _record(OffsetCommitKey(group, partition), encode_offset_value(commit), now_ms)
        for partition, commit in commits.items()
    ]


def group_record(group: str, stored: StoredGroup, now_ms: int) -> NewRecord:
    """The record of a group's generation and members. Raises `UnstorableGroupRecordError`."""
    return _record(GroupMetadataKey(group), encode_group_value(stored), now_ms)


def reset_record(group: str, reset_id: str, reset: DoneReset, now_ms: int) -> NewRecord:
    """The record of an offset reset that was carried out. Raises `UnstorableGroupRecordError`."""
    return _record(DoneResetKey(group, reset_id), encode_reset_value(reset), now_ms)


def retention_record(group: str, retention_ms: int | None, now_ms: int) -> NewRecord:
    """The record of a group's own offset retention: -1 for ever, None to remove it."""
    value = None if retention_ms is None else encode_retention_value(retention_ms)
    return _record(GroupRetentionKey(group), value, now_ms)


def tombstones(keys: Iterable[Key], now_ms: int) -> list[NewRecord]:
    """The tombstones that delete these offsets and groups."""
    return [_record(key, None, now_ms) for key in keys]


def read_mark(now_ms: int) -> NewRecord:
    """A record without content. Once it is below the high watermark, it is certain that its writer
    was still the coordinator when it was appended."""
    return NewRecord(None, INT16.pack(READ_MARK), now_ms)


def to_batches(
    records: Iterable[NewRecord], max_batch_bytes: int, producer: Producer = NOT_IDEMPOTENT
) -> list[bytearray]:
    """Batches with these records in their order: one if they fit, otherwise as few as possible. No
    batch is larger than `max_batch_bytes`. With a `producer` they are part of its transaction.

    The size of each record is estimated with the maximum overhead. Raises `BatchTooLargeError` if a
    single record is too large.
    """
    options = DEFAULT_OPTIONS
    if producer is not NOT_IDEMPOTENT:
        # As in Kafka, every batch has sequence number 0: these are not the producer's own batches.
        options = BatchOptions(producer=replace(producer, base_sequence=0), transactional=True)
    portions: list[list[NewRecord]] = []
    size_bytes = 0
    for record in records:
        record_bytes = _FRAME_BYTES_MAX + len(record.key or b"") + len(record.value or b"")
        if not portions or size_bytes + record_bytes > max_batch_bytes:
            portions.append([])
            size_bytes = HEADER_BYTES
        portions[-1].append(record)
        size_bytes += record_bytes
    batches = [build_batch(portion, options) for portion in portions]
    largest_bytes = max(map(len, batches), default=0)
    if largest_bytes > max_batch_bytes:
        raise BatchTooLargeError(
            f"the group's record needs a batch of {largest_bytes} bytes, and the limit is "
            f"{max_batch_bytes}"
        )
    return batches


def _record(key: Key, value: bytes | None, now_ms: int) -> NewRecord:
    return NewRecord(value, encode_key(key), now_ms)
