"""What expires and what is purged: an example for each clause."""

import struct
from dataclasses import replace
from uuid import UUID

import pytest

from chiplog_broker.groups.batches import (
    commit_records,
    group_record,
    reset_record,
    retention_record,
    to_batches,
    tombstones,
)
from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.groups.forgetting import expired_keys, keys_of_group, keys_of_topic
from chiplog_broker.groups.keys import DoneResetKey, GroupMetadataKey, Key, OffsetCommitKey
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.reset_value import DoneReset
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.stored import StoredGroup, StoredMember
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

RETENTION_MS = 1_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OLD, NEW, TRASH = UUID(int=1), UUID(int=2), UUID(int=3)
EMPTY = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    current_state_timestamp_ms=500,
    members=(),
)


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def member(subscribed: bytes) -> StoredMember:
    return StoredMember(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        subscription=subscribed,
        assignment=b"",
    )


def stable(*subscribed: bytes, protocol_type: str = "consumer") -> StoredGroup:
    return replace(
        EMPTY,
        protocol_type=protocol_type,
        protocol="range",
        leader="m",
        members=tuple(map(member, subscribed)),
    )


def at(timestamp_ms: int, topic_id: UUID | None = None) -> CommittedOffset:
    return CommittedOffset(offset=1, commit_timestamp_ms=timestamp_ms, topic_id=topic_id)


class Partition:
    """A state that is told of what is written."""

    def __init__(
        self, group: StoredGroup | None, commits: dict[TopicPartition, CommittedOffset]
    ) -> None:
        self.state = GroupsState()
        self.write(commit_records("g", commits, 0))
        self.write([] if group is None else [group_record("g", group, 0)])

    def write(
        self, records: list[NewRecord], *, in_transaction: bool = False, producer_id: int = 1
    ) -> None:
        options = BatchOptions(base_offset=self.state.end_offset)
        if in_transaction:
            producer = Producer(producer_id=producer_id, epoch=0, base_sequence=0)
            options = replace(options, producer=producer, transactional=True)
        if records:
            self.state.apply(build_batch(records, options))

    def expired(self, now_ms: int, *, is_rebalancing: bool = False) -> list[Key]:
        return expired_keys(
            self.state,
            "g",
            is_rebalancing=is_rebalancing,
            now_ms=now_ms,
            retention_ms=RETENTION_MS,
        )


def offsets(*partitions: TopicPartition) -> list[Key]:
    return [OffsetCommitKey("g", partition) for partition in partitions]


THE_GROUP: list[Key] = [GroupMetadataKey("g")]


def test_an_empty_groups_offsets_expire_together_counted_from_when_it_became_empty() -> None:
    partition = Partition(EMPTY, {A0: at(0), B0: at(499)})
    assert partition.expired(1_499) == []
    assert partition.expired(1_500) == offsets(A0, B0) + THE_GROUP


def test_where_nobody_stored_when_it_became_empty_each_commit_counts() -> None:
    old = replace(EMPTY, current_state_timestamp_ms=-1)
    partition = Partition(old, {A0: at(0), B0: at(499)})
    assert partition.expired(999) == []
    assert partition.expired(1_000) == offsets(A0)
    assert partition.expired(1_499) == offsets(A0, B0) + THE_GROUP


@pytest.mark.parametrize("group", [None, replace(EMPTY, protocol_type=None)])
def test_a_simple_groups_offsets_expire_each_by_itself(group: StoredGroup | None) -> None:
    partition = Partition(group, {A0: at(0), B0: at(700)})
    assert partition.expired(999) == []
    assert partition.expired(1_000) == offsets(A0)
    assert partition.expired(1_700) == offsets(A0, B0) + (THE_GROUP if group else [])


def test_an_empty_group_of_another_protocol_expires_too() -> None:
    partition = Partition(replace(EMPTY, protocol_type="connect"), {A0: at(0)})
    assert partition.expired(1_499) == []
    assert partition.expired(1_500) == offsets(A0) + THE_GROUP


def test_a_group_with_members_keeps_all_that_they_subscribe_to() -> None:
    partition = Partition(stable(subscription("a"), subscription("b")), {A0: at(0), B0: at(0)})
    assert partition.expired(10**9) == []


def test_a_topic_that_no_member_subscribes_to_any_more_expires_by_its_commits() -> None:
    partition = Partition(stable(subscription("b")), {A0: at(0), A1: at(300), B0: at(0)})
    assert partition.expired(999) == []
    assert partition.expired(1_000) == offsets(A0)
    assert partition.expired(1_300) == offsets(A0, A1)


def test_the_last_offset_of_a_group_with_members_leaves_the_group() -> None:
    partition = Partition(stable(subscription("b")), {A0: at(0)})
    assert partition.expired(10**9) == offsets(A0)


@pytest.mark.parametrize(
    "group",
    [
        stable(subscription("b"), b"not a subscription"),
        stable(subscription("b"), protocol_type="connect"),
    ],
)
def test_where_subscriptions_are_not_known_nothing_expires(group: StoredGroup) -> None:
    assert Partition(group, {A0: at(0)}).expired(10**9) == []


@pytest.mark.parametrize("group", [EMPTY, stable(subscription("b"))])
def test_during_a_rebalance_nothing_expires(group: StoredGroup) -> None:
    partition = Partition(group, {A0: at(0)})
    assert partition.expired(10**9, is_rebalancing=True) == []
    assert partition.expired(10**9) != []


def test_an_expiry_of_its_own_goes_before_the_groups() -> None:
    commits = {A0: replace(at(0), expire_timestamp_ms=50), B0: at(0)}
    partition = Partition(EMPTY, commits)
    assert partition.expired(49) == []
    assert partition.expired(50) == offsets(A0)
    later = Partition(EMPTY, {A0: replace(at(0), expire_timestamp_ms=9_000)})
    assert later.expired(8_999) == []
    kept = Partition(stable(subscription("a")), commits)
    assert kept.expired(10**9) == offsets(B0)


def test_an_empty_group_that_never_committed_goes_at_once() -> None:
    assert Partition(EMPTY, {}).expired(500) == THE_GROUP
    assert Partition(None, {}).expired(10**9) == []


def test_what_an_open_transaction_may_commit_does_not_expire() -> None:
    partition = Partition(EMPTY, {A0: at(0), B0: at(0)})
    partition.write(commit_records("g", {A0: at(0)}, 0), in_transaction=True)
    assert partition.expired(10**9) == offsets(B0)
    for_nothing_yet = Partition(EMPTY, {})
    for_nothing_yet.write(commit_records("g", {A0: at(0)}, 0), in_transaction=True)
    assert for_nothing_yet.expired(10**9) == []


def test_what_is_forgotten_is_gone() -> None:
    partition = Partition(EMPTY, {A0: at(0), B0: at(0)})
    partition.write(tombstones(partition.expired(1_500), 0))
    assert partition.state.group_ids() == frozenset()


# --- topics that are gone -------------------------------------------------------------------


def test_offsets_of_a_deleted_topic_are_purged() -> None:
    partition = Partition(stable(subscription("a")), {A0: at(0, OLD), A1: at(0), B0: at(0, NEW)})
    assert keys_of_topic(partition.state, OLD) == {"g": offsets(A0)}, "one without an id stays"
    assert keys_of_topic(partition.state, TRASH) == {}
    partition.write(tombstones(keys_of_topic(partition.state, OLD)["g"], 0))
    assert set(partition.state.offsets("g")) == {A1, B0}


def test_what_is_committed_for_the_topic_created_again_is_spared_whatever_a_transaction_holds() -> (
    None
):
    partition = Partition(None, {A0: at(0, NEW)})
    partition.write(commit_records("g", {A0: at(0, OLD)}, 0), in_transaction=True)
    assert keys_of_topic(partition.state, OLD) == {}


def test_groups_are_purged_in_the_order_of_their_names() -> None:
    partition = Partition(None, {})
    names = [f"group-{number}" for number in range(8)]
    for group in reversed(names):
        partition.write(commit_records(group, {A0: at(0, OLD)}, 0))
    assert list(keys_of_topic(partition.state, OLD)) == names


def test_a_commit_with_an_expiry_of_its_own_belongs_to_its_topic_too() -> None:
    expiring = replace(at(0, OLD), expire_timestamp_ms=9_000)
    partition = Partition(EMPTY, {A0: expiring})
    assert partition.state.committed("g", A0, OLD) == expiring
    assert partition.state.committed("g", A0, NEW) is None
    assert keys_of_topic(partition.state, OLD) == {"g": offsets(A0)}


def test_what_a_transaction_may_commit_for_the_topic_created_again_is_spared() -> None:
    partition = Partition(None, {A0: at(0, OLD), A1: at(0, OLD)})
    partition.write(commit_records("g", {A0: at(0, NEW), A1: at(1, OLD)}, 0), in_transaction=True)
    assert keys_of_topic(partition.state, OLD) == {"g": offsets(A1)}


def test_all_transactions_count_that_may_commit_an_offset() -> None:
    """One of them holds an offset for the topic that was deleted, another for the one created
    again, which must not be lost."""
    for topic_ids in ((NEW, OLD), (OLD, NEW)):
        partition = Partition(None, {A0: at(0, OLD)})
        for producer_id, topic_id in enumerate(topic_ids):
            partition.write(
                commit_records("g", {A0: at(0, topic_id)}, 0),
                in_transaction=True,
                producer_id=producer_id,
            )
        assert keys_of_topic(partition.state, OLD) == {}, topic_ids


# --- a group's own retention ----------------------------------------------------------------


def keeping(retention_ms: int | None, group: StoredGroup | None = EMPTY) -> Partition:
    """Offsets of which one has an expiry of its own, at 900."""
    expiring = replace(at(0), expire_timestamp_ms=900)
    partition = Partition(group, {A0: at(0), B0: expiring})
    partition.write([retention_record("g", retention_ms, 0)])
    return partition


def test_a_groups_own_retention_is_in_the_place_of_all_others() -> None:
    partition = keeping(2_000)
    assert partition.expired(2_499) == []
    assert partition.expired(2_500) == offsets(A0, B0) + THE_GROUP
    assert keeping(0).expired(500) == offsets(A0, B0) + THE_GROUP


def test_what_is_kept_for_ever_never_expires() -> None:
    assert keeping(-1).expired(2**62) == []
    assert keeping(-1, None).expired(2**62) == []


def test_a_group_that_kept_nothing_goes_whatever_its_retention() -> None:
    partition = Partition(EMPTY, {})
    partition.write([retention_record("g", -1, 0)])
    assert partition.expired(0) == THE_GROUP


def test_a_retention_that_is_taken_back_counts_no_more() -> None:
    partition = keeping(-1)
    partition.write([retention_record("g", None, 0)])
    assert partition.state.retention_ms("g") is None
    assert partition.expired(900) == offsets(B0)
    assert partition.expired(1_500) == offsets(A0, B0) + THE_GROUP


def test_a_groups_own_retention_is_of_that_group_alone() -> None:
    partition = Partition(EMPTY, {A0: at(0)})
    partition.write([retention_record("h", -1, 0)])
    assert partition.expired(1_500) == offsets(A0) + THE_GROUP
    assert (list(partition.state.retained()), "h" in partition.state) == (["h"], False)


# --- deleted groups -------------------------------------------------------------------------


def test_a_deleted_groups_offsets_go_before_itself() -> None:
    """Those committed, and those that a transaction may still commit."""
    partition = Partition(EMPTY, {A0: at(0), A1: at(0)})
    partition.write(commit_records("g", {A0: at(1), B0: at(1)}, 0), in_transaction=True)
    keys = keys_of_group(partition.state, "g")
    assert keys == offsets(A0, A1, B0) + THE_GROUP
    for batch in to_batches(tombstones(keys, 0), 100):
        base_offset = partition.state.end_offset
        struct.pack_into(">q", batch, 0, base_offset)  # outside the checksum
        assert partition.state.group("g") is not None
        partition.state.apply(batch)
    assert partition.state.group_ids() == frozenset()
    assert keys_of_group(partition.state, "g") == []


def test_the_resets_of_a_group_go_with_it() -> None:
    """Not those of another: each id runs once for as long as there is its group."""
    partition = Partition(EMPTY, {A0: at(0)})
    done = DoneReset(fingerprint=b"f", done_ms=0)
    for group, reset_id in (("g", "first"), ("h", "other"), ("g", "second")):
        partition.write([reset_record(group, reset_id, done, 0)])
    resets: list[Key] = [DoneResetKey("g", "first"), DoneResetKey("g", "second")]

    assert keys_of_group(partition.state, "g") == offsets(A0) + resets + THE_GROUP
    assert partition.expired(1_500) == offsets(A0) + resets + THE_GROUP
