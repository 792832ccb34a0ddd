"""What single records do to the state: examples."""

import struct
from dataclasses import replace
from uuid import UUID

import pytest

from chiplog_broker.groups.batches import commit_records, group_record, tombstones
from chiplog_broker.groups.errors import UnreadableGroupRecordError
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.keys import GroupMetadataKey, OffsetCommitKey, encode_key
from chiplog_broker.groups.offset_value import CommittedOffset, encode_offset_value
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.records.errors import CorruptBatchError, InvalidRecordError
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

T0 = TopicPartition("t", 0)
KEY = OffsetCommitKey("g", T0)
OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)
ABORT, COMMIT = 0, 1
GROUP = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    current_state_timestamp_ms=5,
    members=(),
)


def committed(offset: int, topic_id: UUID | None = None) -> CommittedOffset:
    return CommittedOffset(offset=offset, commit_timestamp_ms=0, topic_id=topic_id)


class Log:
    """A state, and the batches it is told of one by one."""

    def __init__(self) -> None:
        self.state = GroupsState()

    def append(self, records: list[NewRecord], **options: object) -> None:
        place = BatchOptions(base_offset=self.state.end_offset, **options)  # type: ignore[arg-type]
        self.state.apply(build_batch(records, place))

    def commit(self, offset: int, *, producer: Producer | None = None) -> None:
        records = commit_records("g", {T0: committed(offset)}, 0)
        if producer is None:
            self.append(records)
        else:
            self.append(records, producer=producer, transactional=True)

    def end(self, kind: int, producer: Producer) -> None:
        marker = NewRecord(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, kind))
        self.append([marker], producer=producer, transactional=True, control=True)

    def delete(self) -> None:
        self.append(tombstones([KEY], 0))

    def offset(self) -> int | None:
        commit = self.state.offsets("g").get(T0)
        return None if commit is None else commit.offset


@pytest.fixture
def log() -> Log:
    return Log()


def producer(epoch: int = 0, producer_id: int = 7) -> Producer:
    return Producer(producer_id=producer_id, epoch=epoch, base_sequence=0)


def test_the_last_commit_counts(log: Log) -> None:
    log.commit(5)
    log.commit(3)  # a client may go back
    assert log.offset() == 3
    assert log.state.offsets("g")[T0].record_offset == 1
    log.delete()
    assert log.offset() is None
    assert log.state.group_ids() == frozenset()
    assert log.state.end_offset == 3


def test_a_group_stays_without_offsets_and_offsets_without_a_group(log: Log) -> None:
    log.append([group_record("g", GROUP, 0), *commit_records("h", {T0: committed(1)}, 0)])
    assert log.state.group("g") == GROUP
    assert log.state.group("h") is None
    assert log.state.group_ids() == {"g", "h"}
    log.append(tombstones([GroupMetadataKey("g"), GroupMetadataKey("h")], 0))
    assert log.state.group_ids() == {"h"}


def test_a_topic_created_again_inherits_nothing(log: Log) -> None:
    log.append(commit_records("g", {T0: committed(5, OLD_ID)}, 0))
    assert log.state.committed("g", T0, NEW_ID) is None
    assert log.state.committed("g", T0, OLD_ID) == committed(5, OLD_ID)
    assert log.state.committed("g", T0, None) == committed(5, OLD_ID)
    log.commit(6)  # by one that did not know the id
    assert log.state.committed("g", T0, NEW_ID) == committed(6)


def test_a_transaction_counts_once_it_is_committed(log: Log) -> None:
    log.commit(1)
    log.commit(2, producer=producer())
    assert log.offset() == 1
    assert log.state.has_pending("g", T0)
    assert list(log.state.pending("g")) == [(T0, committed(2))]
    assert list(log.state.pending("h")) == []
    log.end(COMMIT, producer())
    assert log.offset() == 2
    assert not log.state.has_pending("g", T0)


def test_an_aborted_transaction_never_was(log: Log) -> None:
    log.commit(2, producer=producer())
    assert log.state.group_ids() == {"g"}
    log.end(ABORT, producer())
    log.end(COMMIT, producer())
    assert log.offset() is None
    assert log.state.group_ids() == frozenset()


def test_a_transaction_counts_as_of_its_own_place(log: Log) -> None:
    log.commit(2, producer=producer())
    log.commit(3)
    log.end(COMMIT, producer())
    assert log.offset() == 3  # as after compaction, which keeps the later record only


def test_of_two_transactions_the_later_record_wins_not_the_later_marker(log: Log) -> None:
    one, other = producer(producer_id=1), producer(producer_id=2)
    log.commit(2, producer=one)
    log.commit(3, producer=other)
    log.end(COMMIT, other)
    log.end(COMMIT, one)
    assert log.offset() == 3


def test_what_was_deleted_in_the_meantime_is_not_brought_back(log: Log) -> None:
    log.commit(2, producer=producer())
    log.delete()
    assert not log.state.has_pending("g", T0)
    log.end(COMMIT, producer())
    assert log.offset() is None


def test_an_abort_that_fences_has_the_newer_epoch(log: Log) -> None:
    log.commit(2, producer=producer(epoch=3))
    log.end(ABORT, producer(epoch=4))
    log.end(COMMIT, producer(epoch=3))
    assert log.offset() is None


def test_a_marker_of_an_older_epoch_ends_nothing(log: Log) -> None:
    log.commit(2, producer=producer(epoch=3))
    log.end(COMMIT, producer(epoch=2))
    assert log.offset() is None
    log.end(COMMIT, producer(epoch=4))  # KIP-890: the end raises the epoch
    assert log.offset() == 2


def test_a_newer_epoch_drops_what_the_older_left_open(log: Log) -> None:
    other = OffsetCommitKey("g", TopicPartition("t", 1))
    log.append(
        commit_records("g", {other.partition: committed(9)}, 0),
        producer=producer(epoch=3),
        transactional=True,
    )
    log.commit(2, producer=producer(epoch=4))
    log.commit(1, producer=producer(epoch=3))  # a zombie's
    log.end(COMMIT, producer(epoch=4))
    assert log.state.offsets("g") == {T0: committed(2)}


def test_an_idempotent_batch_is_no_transaction(log: Log) -> None:
    log.append(commit_records("g", {T0: committed(4)}, 0), producer=producer())
    assert log.offset() == 4


def test_records_of_other_kinds_are_passed_over(log: Log) -> None:
    foreign = [NewRecord(b"?", struct.pack(">h", kind) + b"...") for kind in (3, 21, 30_000, -1)]
    log.append([*foreign, NewRecord(None, struct.pack(">h", 4))])
    assert log.state.group_ids() == frozenset()
    assert log.state.end_offset == 5
    # A marker of a kind that is none of a transaction's ends.
    log.commit(2, producer=producer())
    log.end(2, producer())
    assert log.state.has_pending("g", T0)


def test_the_oldest_kind_of_key_is_the_same_offset(log: Log) -> None:
    log.commit(1)
    legacy = b"\0\0" + encode_key(KEY)[2:]
    log.append([NewRecord(encode_offset_value(committed(2)), legacy)])
    assert log.offset() == 2
    log.append([NewRecord(None, legacy)])
    assert log.offset() is None


def test_a_value_that_cannot_be_read_stops_the_fold(log: Log) -> None:
    with pytest.raises(UnreadableGroupRecordError, match="OffsetCommitValue of version 9"):
        log.append([NewRecord(b"\0\x09", encode_key(KEY))])
    with pytest.raises(UnreadableGroupRecordError, match="without a key"):
        log.append([NewRecord(b"")])
    with pytest.raises(InvalidRecordError):
        log.append([NewRecord(b"", b"\0\0")], control=True)


def test_a_flipped_bit_stops_the_fold(log: Log) -> None:
    batch = build_batch(commit_records("g", {T0: committed(4)}, 0))
    batch[-3] ^= 1
    with pytest.raises(CorruptBatchError):
        log.state.apply(batch)


def test_batches_come_in_the_logs_order(log: Log) -> None:
    log.commit(1)
    with pytest.raises(AssertionError):
        log.state.apply(build_batch(commit_records("g", {T0: committed(1)}, 0)))


def test_views_cannot_be_written_through(log: Log) -> None:
    log.commit(1)
    for group in ("g", "unknown"):
        with pytest.raises(TypeError):
            log.state.offsets(group)[T0] = committed(2)  # type: ignore[index]
    assert replace(log.state.offsets("g")[T0], record_offset=-1) == committed(1)
