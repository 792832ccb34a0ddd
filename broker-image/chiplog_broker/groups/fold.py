"""What the records of one partition of `__consumer_offsets` add up to.

The same records give the same state on every broker, after every restart, and before and after
compaction: of each key, the record that stands last in the log counts, once it counts at all. A
commit of a transaction (TxnOffsetCommit) counts from the transaction's commit marker on, but *as of
its own place*: had a later plain commit been written meanwhile, that one wins, as it does once
compaction has removed the earlier record. This is Kafka's rule too. Nothing is kept but what is
stored, and the open transactions.

Whoever reads for clients folds up to the high watermark.
"""

from collections.abc import Iterator, KeysView, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final
from uuid import UUID

from chiplog_broker.groups.group_value import decode_group_value
from chiplog_broker.groups.keys import (
    DoneResetKey,
    GroupMetadataKey,
    GroupRetentionKey,
    OffsetCommitKey,
    decode_key,
)
from chiplog_broker.groups.offset_value import CommittedOffset, decode_offset_value
from chiplog_broker.groups.reset_value import DoneReset, decode_reset_value
from chiplog_broker.groups.retention_value import decode_retention_value
from chiplog_broker.groups.transactions import OpenTransactions
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import BatchHeader, check_crc, iter_batches
from chiplog_wire.records.errors import InvalidRecordError
from chiplog_wire.records.reader import Record, read_records

_CONTROL_KEY: Final = Struct(">hh")
"""A marker's key: its version, and what it says."""
_ABORT: Final = 0
_COMMIT: Final = 1

_NO_RESETS: Final[Mapping[str, DoneReset]] = MappingProxyType({})
_NO_OFFSETS: Final[Mapping[TopicPartition, CommittedOffset]] = MappingProxyType({})


class GroupsState:
    """The groups of one partition, as of `end_offset`."""

    __slots__ = (
        "_groups",
        "_offset_count",
        "_offsets",
        "_resets",
        "_retentions",
        "_transactions",
        "end_offset",
    )

    def __init__(self, end_offset: int = 0) -> None:
        """Empty; `end_offset` is where the first batch may begin, the log's start."""
        self.end_offset = end_offset
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._offset_count = 0
        self._resets: dict[str, dict[str, DoneReset]] = {}
        self._retentions: dict[str, int] = {}
        """In milliseconds; -1 is for ever. A group that has nothing else does not exist."""
        self._transactions = OpenTransactions()

    def apply(self, batches: Buffer) -> None:
        """Fold in whole batches, as they stand in the log, in its order.

        After an error the state is of no use any more. Raises `UnreadableGroupRecordError` and
        `RecordsError`, the latter also where a checksum does not fit: compaction or a bad disk may
        have changed what was written long ago, and a wrong offset makes a group skip records.
        """
        view = memoryview(batches)
        for position, header in iter_batches(view):
            assert header.base_offset >= self.end_offset, "batches out of the log's order"
            batch = view[position : position + header.size_bytes]
            check_crc(batch, header)
            if header.is_control:
                self._apply_marker(batch, header)
            else:
                for record in read_records(batch, header):
                    self._apply_record(record, header)
            self.end_offset = header.last_offset + 1

    @property
    def group_count(self) -> int:
        """How many groups there are, about: quick to tell."""
        return max(len(self._groups), len(self._offsets))

    @property
    def offset_count(self) -> int:
        """How many offsets all groups have committed."""
        return self._offset_count

    def group_ids(self) -> frozenset[str]:
        """All groups that there is anything of, those of which only transactions know included."""
        of_keys: frozenset[str] = frozenset().union(self._groups, self._offsets, self._resets)
        return of_keys | self._transactions.groups()

    def __contains__(self, group: str) -> bool:
        """Whether it is one of `group_ids`."""
        return (
            group in self._groups
            or group in self._offsets
            or group in self._resets
            or group in self._transactions.groups()
        )

    def group(self, group: str) -> StoredGroup | None:
        """Its generation and members; None for a group that only ever committed offsets."""
        return self._groups.get(group)

    def offsets(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All it has committed, a live view. Check `CommittedOffset.is_for` before use."""
        offsets = self._offsets.get(group)
        return _NO_OFFSETS if offsets is None else MappingProxyType(offsets)

    def resets(self, group: str) -> Mapping[str, DoneReset]:
        """By id, all resets that were carried out since there is the group; a live view."""
        resets = self._resets.get(group)
        return _NO_RESETS if resets is None else MappingProxyType(resets)

    def retention_ms(self, group: str) -> int | None:
        """How long its offsets are kept, -1 for ever; None where it has no say of its own."""
        return self._retentions.get(group)

    def retained(self) -> KeysView[str]:
        """Groups that have, not all of which need exist; a live view."""
        return self._retentions.keys()

    def committed(
        self, group: str, partition: TopicPartition, topic_id: UUID | None
    ) -> CommittedOffset | None:
        """What a group committed for this partition of the topic of this id.

        None too where that was for another topic of the name. `topic_id` is None where no topic
        has the name now: then whatever was committed last.
        """
        commit = self.offsets(group).get(partition)
        return commit if commit is not None and commit.is_for(topic_id) else None

    def has_pending(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction may still commit here (UNSTABLE_OFFSET_COMMIT)."""
        return self._transactions.has(OffsetCommitKey(group, partition))

    def pending(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """What open transactions would commit for a group, if they were committed."""
        return self._transactions.of_group(group)

    def _apply_record(self, record: Record, header: BatchHeader) -> None:
        match decode_key(record.key):
            case GroupMetadataKey(group):
                # Never part of a transaction: a producer's transaction does not change members.
                if record.value is None:
                    self._groups.pop(group, None)
                else:
                    self._groups[group] = decode_group_value(record.value, group)
            case DoneResetKey() as key:
                self._apply_reset(key, record.value)
            case GroupRetentionKey(group):
                if record.value is None:
                    self._retentions.pop(group, None)
                else:
                    self._retentions[group] = decode_retention_value(record.value, group)
            case OffsetCommitKey() as key:
                self._apply_offset(key, record, header)

    def _apply_reset(self, key: DoneResetKey, value: bytes | None) -> None:
        if value is not None:
            resets = self._resets.setdefault(key.group, {})
            resets[key.reset_id] = decode_reset_value(value, key.group)
            return
        resets = self._resets.get(key.group, {})
        resets.pop(key.reset_id, None)
        if not resets:
            self._resets.pop(key.group, None)

    def _apply_offset(self, key: OffsetCommitKey, record: Record, header: BatchHeader) -> None:
        if record.value is None:
            self._transactions.forget(key)
            self._remove(key)
            return
        commit = decode_offset_value(record.value, key.group, record.offset)
        if header.is_transactional:
            self._transactions.add(header.producer_id, header.producer_epoch, key, commit)
        else:
            self._put(key, commit)

    def _apply_marker(self, batch: memoryview, header: BatchHeader) -> None:
        for record in read_records(batch, header):
            if record.key is None or len(record.key) < _CONTROL_KEY.size:
                raise InvalidRecordError(f"the control record at {record.offset} has no kind")
            _, kind = _CONTROL_KEY.unpack_from(record.key)
            if kind not in (_ABORT, _COMMIT):
                continue
            ended = self._transactions.end(header.producer_id, header.producer_epoch)
            if kind == _COMMIT:
                for key, commit in ended:
                    known = self.offsets(key.group).get(key.partition)
                    if known is None or known.record_offset < commit.record_offset:
                        self._put(key, commit)

    def _put(self, key: OffsetCommitKey, commit: CommittedOffset) -> None:
        offsets = self._offsets.setdefault(key.group, {})
        self._offset_count += key.partition not in offsets
        offsets[key.partition] = commit

    def _remove(self, key: OffsetCommitKey) -> None:
        offsets = self._offsets.get(key.group, {})
        self._offset_count -= offsets.pop(key.partition, None) is not None
        if not offsets:
            self._offsets.pop(key.group, None)
