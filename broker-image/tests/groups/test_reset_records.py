"""That a reset is done, as bytes; and when it is forgotten."""

import struct

import pytest

from chiplog_broker.groups.batches import commit_records, group_record, reset_record, tombstones
from chiplog_broker.groups.errors import UnreadableGroupRecordError
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.forgetting import expired_keys, keys_of_group
from chiplog_broker.groups.keys import DoneResetKey, GroupMetadataKey, decode_key, encode_key
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.reset_value import (
    DoneReset,
    MovedOffset,
    decode_reset_value,
    encode_reset_value,
)
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DONE = DoneReset(
    fingerprint=b"0123456789abcdef",
    done_ms=7,
    offsets=(MovedOffset(A0, -1, 5), MovedOffset(A1, 9, 3), MovedOffset(B0, 0, 0)),
)
KEY = DoneResetKey("g", "one")
EMPTY = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    current_state_timestamp_ms=0,
    members=(),
)


def test_the_key_is_of_a_kind_that_kafka_does_not_count_up_to() -> None:
    assert encode_key(KEY) == struct.pack(">hh", 30_001, 1) + b"g" + struct.pack(">h", 3) + b"one"
    assert decode_key(encode_key(KEY)) == KEY


def test_the_value_byte_by_byte() -> None:
    one = struct.pack(">h", 1)
    assert encode_reset_value(DONE) == b"".join(
        (
            struct.pack(">hqi", 0, 7, 16),
            b"0123456789abcdef",
            struct.pack(">i", 2),
            one + b"a" + struct.pack(">i", 2),
            struct.pack(">iqq", 0, -1, 5),
            struct.pack(">iqq", 1, 9, 3),
            one + b"b" + struct.pack(">i", 1),
            struct.pack(">iqq", 0, 0, 0),
        )
    )
    assert decode_reset_value(encode_reset_value(DONE), "g") == DONE


@pytest.mark.parametrize("cut", range(0, len(encode_reset_value(DONE)), 7))
def test_half_a_value_is_an_error(cut: int) -> None:
    with pytest.raises(UnreadableGroupRecordError, match="a reset of version"):
        decode_reset_value(encode_reset_value(DONE)[:cut], "g")


def test_a_later_version_is_an_error() -> None:
    later = struct.pack(">h", 1) + encode_reset_value(DONE)[2:]
    with pytest.raises(UnreadableGroupRecordError, match="unknown version"):
        decode_reset_value(later, "g")


class Partition:
    """A state that is told of what is written."""

    def __init__(self) -> None:
        self.state = GroupsState()

    def write(self, *records: NewRecord) -> None:
        options = BatchOptions(base_offset=self.state.end_offset)
        self.state.apply(build_batch(list(records), options))

    def expire(self) -> None:
        keys = expired_keys(self.state, "g", is_rebalancing=False, now_ms=1_000, retention_ms=1_000)
        if keys:
            self.write(*tombstones(keys, 0))


@pytest.mark.parametrize("stored", [None, EMPTY])
def test_a_reset_is_known_for_as_long_as_the_group_exists(stored: StoredGroup | None) -> None:
    partition = Partition()
    commit = CommittedOffset(offset=1, commit_timestamp_ms=1)
    partition.write(
        *commit_records("g", {A0: commit}, 0),
        *([] if stored is None else [group_record("g", stored, 0)]),
        reset_record("g", "one", DONE, 0),
    )
    if stored is None:
        partition.expire()
        assert partition.state.resets("g") == {"one": DONE}, "its offsets have some time left"
        young = CommittedOffset(offset=1, commit_timestamp_ms=0)
        partition.write(*commit_records("g", {A0: young}, 0))

    partition.expire()

    assert "g" not in partition.state
    assert partition.state.group_ids() == frozenset()


def test_what_is_left_of_a_group_without_offsets_goes_too() -> None:
    partition = Partition()
    partition.write(reset_record("g", "one", DONE, 0))
    assert "g" in partition.state

    partition.expire()

    assert "g" not in partition.state


def test_a_group_that_is_deleted_takes_its_resets_along() -> None:
    partition = Partition()
    partition.write(group_record("g", EMPTY, 0), reset_record("g", "one", DONE, 0))

    assert keys_of_group(partition.state, "g") == [KEY, GroupMetadataKey("g")]
