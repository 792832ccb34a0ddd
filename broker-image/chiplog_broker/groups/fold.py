"""The state of groups, as the result of all records of one partition of `__consumer_offsets`.

The same records give the same state on every broker, after every restart, and before and after
compaction: the last record of each key in the log counts.

A transactional commit (TxnOffsetCommit) counts once its commit marker was read, but it keeps its
position in the log: a plain commit that was written between the two is newer and wins, as it does
after compaction. This is Kafka's rule, too.

Only stored values and open transactions are kept. A coordinator that answers clients applies
records up to the high watermark.
"""

from collections.abc import Iterator, KeysView, Mapping
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
from chiplog_wire.records.control import ABORT, COMMIT, MARKER_KEY
from chiplog_wire.records.errors import InvalidRecordError
from chiplog_wire.records.reader import Record, read_records

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
        """Empty; `end_offset` is the log start offset, where the first batch may begin."""
        self.end_offset = end_offset
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._offset_count = 0
        self._resets: dict[str, dict[str, DoneReset]] = {}
        self._retentions: dict[str, int] = {}
        """Group -> its own retention in milliseconds, -1 for ever. It does not make a group
        exist."""
        self._transactions = OpenTransactions()

    def apply(self, batches: Buffer) -> None:
        """Apply whole batches, in the order of the log.

        After an error the state must not be used any more. Raises `UnreadableGroupRecordError` and
        `RecordsError`. The checksums are compared, because compaction or a disk may have changed
        old records, and a wrong offset makes a group skip records.
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

    def marker_appended(
        self, producer_id: int, epoch: int, end_offset: int, *, is_commit: bool
    ) -> None:
        """Apply a marker that was appended at the end of the log, just below `end_offset`."""
        self._end_transaction(producer_id, epoch, is_commit=is_commit)
        self.end_offset = end_offset

    @property
    def group_count(self) -> int:
        """The approximate number of groups, without counting them one by one."""
        return max(len(self._groups), len(self._offsets), len(self._transactions.groups()))

    @property
    def offset_count(self) -> int:
        """The number of offsets of all groups: committed ones, and those in open transactions."""
        return self._offset_count + self._transactions.count

    def group_ids(self) -> frozenset[str]:
        """The ids of all groups with any state, open transactions included."""
        of_keys: frozenset[str] = frozenset().union(self._groups, self._offsets, self._resets)
        return of_keys | self._transactions.groups()

    def __contains__(self, group: str) -> bool:
        """Whether `group_ids` contains this group."""
        return (
            group in self._groups
            or group in self._offsets
            or group in self._resets
            or group in self._transactions.groups()
        )

    def group(self, group: str) -> StoredGroup | None:
        """The generation and members of a group; None for a group that has only committed
        offsets."""
        return self._groups.get(group)

    def offsets(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, as a live view. Some may be of an earlier topic of the
        same name: check `CommittedOffset.is_for` before use."""
        offsets = self._offsets.get(group)
        return _NO_OFFSETS if offsets is None else MappingProxyType(offsets)

    def resets(self, group: str) -> Mapping[str, DoneReset]:
        """Id -> reset, for all resets of a group since it exists; a live view."""
        resets = self._resets.get(group)
        return _NO_RESETS if resets is None else MappingProxyType(resets)

    def retention_ms(self, group: str) -> int | None:
        """The group's own offset retention, -1 for ever; None if it has the default."""
        return self._retentions.get(group)

    def retained(self) -> KeysView[str]:
        """Groups with a retention of their own, which may be set before a group exists; a live
        view."""
        return self._retentions.keys()

    def committed(
        self, group: str, partition: TopicPartition, topic_id: UUID | None
    ) -> CommittedOffset | None:
        """The committed offset of a group for this partition of the topic with this id.

        None if the offset was committed for another topic of the name. If no topic has the name
        now, `topic_id` is None, and any committed offset is returned.
        """
        commit = self.offsets(group).get(partition)
        return commit if commit is not None and commit.is_for(topic_id) else None

    def has_pending(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction may still commit an offset here (UNSTABLE_OFFSETCOMMIT)."""
        return self._transactions.has(OffsetCommitKey(group, partition))

    def pending(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """The offsets that open transactions would commit for a group."""
        return self._transactions.of_group(group)

    def groups_in_transaction(self, producer_id: int) -> frozenset[str]:
        """The groups whose offsets this producer's open transaction would commit."""
        return self._transactions.groups_of(producer_id)

    def _apply_record(self, record: Record, header: BatchHeader) -> None:
        """Apply one record of the batch with this header. Unknown kinds of keys are ignored."""
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
        """Apply the record of a reset; None is a tombstone."""
        if value is not None:
            resets = self._resets.setdefault(key.group, {})
            resets[key.reset_id] = decode_reset_value(value, key.group)
            return
        resets = self._resets.get(key.group, {})
        resets.pop(key.reset_id, None)
        if not resets:
            self._resets.pop(key.group, None)

    def _apply_offset(self, key: OffsetCommitKey, record: Record, header: BatchHeader) -> None:
        """Apply a committed offset or its tombstone. In a transaction it waits for the marker."""
        if record.value is None:
            # An earlier commit in an open transaction must not come back with its marker.
            self._transactions.forget(key)
            self._remove(key)
            return
        commit = decode_offset_value(record.value, key.group, record.offset)
        if header.is_transactional:
            self._transactions.add(header.producer_id, header.producer_epoch, key, commit)
        else:
            self._put(key, commit)

    def _apply_marker(self, batch: memoryview, header: BatchHeader) -> None:
        """End the producer's transaction. With a commit marker its offsets count, unless a newer
        record of the same key was read since."""
        for record in read_records(batch, header):
            if record.key is None or len(record.key) < MARKER_KEY.size:
                raise InvalidRecordError(f"the control record at {record.offset} has no kind")
            _, kind = MARKER_KEY.unpack_from(record.key)
            if kind not in (ABORT, COMMIT):
                continue  # other control records end no transaction
            self._end_transaction(
                header.producer_id, header.producer_epoch, is_commit=kind == COMMIT
            )

    def _end_transaction(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        """Commit or drop the offsets of the producer's transaction."""
        ended = self._transactions.end(producer_id, epoch)
        if not is_commit:
            return
        for key, commit in ended:
            present = self.offsets(key.group).get(key.partition)
            if present is None or present.record_offset < commit.record_offset:
                self._put(key, commit)

    def _put(self, key: OffsetCommitKey, commit: CommittedOffset) -> None:
        """Store a committed offset, and count it if its key is new."""
        offsets = self._offsets.setdefault(key.group, {})
        self._offset_count += key.partition not in offsets  # 1 for a new key, otherwise 0
        offsets[key.partition] = commit

    def _remove(self, key: OffsetCommitKey) -> None:
        """Remove a committed offset, if there is one."""
        offsets = self._offsets.get(key.group, {})
        self._offset_count -= offsets.pop(key.partition, None) is not None  # 1 if it existed
        if not offsets:
            self._offsets.pop(key.group, None)
