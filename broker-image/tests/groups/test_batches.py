"""The batches a coordinator appends."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.groups.batches import commit_records, group_record, to_batches, tombstones
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.keys import GroupMetadataKey, Key, OffsetCommitKey
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.records.batch import check_crc, read_header
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import NewRecord

NOW_MS = 1_700_000_000_000
LIMIT_BYTES = 400
GROUP = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    current_state_timestamp_ms=NOW_MS,
    members=(),
)


def commits(count: int, metadata: str = "") -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition("t", index): CommittedOffset(
            offset=index, metadata=metadata, commit_timestamp_ms=NOW_MS
        )
        for index in range(count)
    }


def test_partitions_of_one_commit_are_one_batch() -> None:
    wanted = commits(100)
    (batch,) = to_batches(commit_records("g", wanted, NOW_MS), 2**20)
    header = read_header(batch)
    check_crc(memoryview(batch), header)
    assert (header.record_count, header.producer_id, header.attributes) == (100, -1, 0)
    assert header.base_timestamp_ms == header.max_timestamp_ms == NOW_MS
    state = GroupsState()
    state.apply(batch)
    assert state.offsets("g") == wanted


def test_a_group_and_its_end() -> None:
    (batch,) = to_batches([group_record("g", GROUP, NOW_MS)], 2**20)
    state = GroupsState()
    state.apply(batch)
    assert state.group("g") == GROUP
    keys: list[Key] = [OffsetCommitKey("g", TopicPartition("t", 0)), GroupMetadataKey("g")]
    (batch,) = to_batches(tombstones(keys, NOW_MS), 2**20)
    assert [record.value for record in read_records(batch)] == [None, None]
    assert [record.key for record in read_records(batch)] == [
        bytes.fromhex("0001 0001 67 0001 74 00000000"),
        bytes.fromhex("0002 0001 67"),
    ]


@given(
    st.lists(
        st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=100), st.integers(0, 9)),
        max_size=60,
    )
)
def test_no_batch_is_too_large_and_none_is_split_without_need(
    rows: list[tuple[bytes, bytes | None, int]],
) -> None:
    records = [NewRecord(value, key, NOW_MS + shift_ms) for key, value, shift_ms in rows]
    batches = to_batches(records, LIMIT_BYTES)
    assert all(len(batch) <= LIMIT_BYTES for batch in batches)
    found = [record for batch in batches for record in read_records(batch)]
    assert [(record.key, record.value, record.timestamp_ms) for record in found] == [
        (record.key, record.value, record.timestamp_ms) for record in records
    ]
    for left, right in pairwise(batches):
        first = next(iter(read_records(right)))
        # A record is counted with at most 32 bytes beside its key and value.
        spare_bytes = LIMIT_BYTES - len(left)
        counted_more = 32 * read_header(left).record_count
        assert spare_bytes < len(first.key or b"") + len(first.value or b"") + 32 + counted_more


def test_a_record_too_large_for_any_batch_stops_them_all() -> None:
    records = [*tombstones([GroupMetadataKey("g")], NOW_MS)]
    records += commit_records("g", commits(1, metadata="x" * LIMIT_BYTES), NOW_MS)
    with pytest.raises(BatchTooLargeError):
        to_batches(records, LIMIT_BYTES)
    size_bytes = len(to_batches(records[1:], 2**20)[0])
    assert len(to_batches(records[1:], size_bytes)) == 1
    with pytest.raises(BatchTooLargeError):
        to_batches(records[1:], size_bytes - 1)


def test_nothing_to_write() -> None:
    assert to_batches([], LIMIT_BYTES) == []
