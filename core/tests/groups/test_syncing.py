"""SyncGroup: one assigns, all get what is theirs, and nobody holds up the others."""

from typing import Any

import pytest

from chiplog_core.groups.answers import Synced
from chiplog_core.groups.codes import Code
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import REBALANCE_MS, SESSION_MS, Coordinator


def test_followers_wait_for_the_leader() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    follower = one.sync(b)
    assert one.waits(follower)

    leader = one.sync(a, {a: b"left", b: b"right"})

    assert one.synced(leader) == Synced(
        protocol_type="consumer", protocol_name="range", assignment=b"left"
    )
    assert one.synced(follower).assignment == b"right"
    assert one.group.state is GroupState.STABLE


def test_who_comes_later_gets_its_assignment_at_once() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    one.sync(a, {a: b"left", b: b"right"})

    assert one.synced(one.sync(b)).assignment == b"right"
    assert one.synced(one.sync(b)).assignment == b"right"


def test_who_was_given_nothing_gets_nothing_and_strangers_are_left_out() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    one.sync(a, {a: b"all", "stranger": b"what?"})

    assert one.synced(one.sync(b)) == Synced(protocol_type="consumer", protocol_name="range")
    assert [member.assignment for member in one.stored[-1].members] == [b"all", b""]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"member_id": "stranger"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, Code.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "unknown"}, Code.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, Code.ILLEGAL_GENERATION),
        ({"generation": 2}, Code.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, Code.NONE),
    ],
)
@pytest.mark.parametrize("is_assigned", [False, True])
def test_what_is_checked(given: dict[str, Any], code: Code, is_assigned: bool) -> None:
    one = Coordinator()
    (a,) = one.stable_group("a") if is_assigned else one.joined_group("a")
    token = one.sync(**({"member_id": a, "assignments": {a: b"all"}} | given))

    assert one.synced(token).code is code


def test_an_empty_group_knows_nobody() -> None:
    one = Coordinator()

    assert one.synced(one.sync("a-1")).code is Code.UNKNOWN_MEMBER_ID


def test_a_rebalance_ends_the_wait() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    token = one.sync(b)
    one.join("c")

    assert one.synced(token) == Synced(code=Code.REBALANCE_IN_PROGRESS)
    assert one.synced(one.sync(a)).code is Code.REBALANCE_IN_PROGRESS


def test_a_sync_that_is_sent_again_takes_the_place_of_the_first() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    first, second = one.sync(b), one.sync(b)
    assert one.synced(first).code is Code.REBALANCE_IN_PROGRESS

    one.sync(a, {b: b"right"})

    assert one.synced(second).assignment == b"right"


def test_a_follower_may_wait_for_longer_than_its_session() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    token = one.sync(b)
    one.wait(2 * SESSION_MS, alive=[a])
    assert one.waits(token)

    one.sync(a, {b: b"right"})
    one.wait(SESSION_MS - 1, alive=[a])

    assert one.heartbeat(b) is Code.NONE


def test_a_leader_that_does_not_assign_is_given_up() -> None:
    """Its heartbeats do not help it."""
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    token = one.sync(b)
    one.wait(REBALANCE_MS - 1, alive=[a])
    assert one.waits(token)

    one.wait(1, alive=[a])

    assert one.synced(token).code is Code.REBALANCE_IN_PROGRESS
    assert one.heartbeat(a) is Code.UNKNOWN_MEMBER_ID
    assert one.joined(one.join("b", b)).leader == b


def test_a_follower_that_does_not_sync_is_given_up_even_in_a_stable_group() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    one.sync(a, {a: b"left", b: b"right"})
    one.wait(REBALANCE_MS - 1, alive=[a, b])
    assert one.heartbeat(b) is Code.NONE

    one.wait(1, alive=[a, b])

    assert one.group.state is GroupState.PREPARING_REBALANCE
    assert one.heartbeat(b) is Code.UNKNOWN_MEMBER_ID


def test_once_all_have_synced_nothing_is_due_but_sessions() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")

    assert one.group.next_deadline_ms == one.now_ms + SESSION_MS
    one.wait(2 * REBALANCE_MS, alive=[a, b])
    assert one.group.state is GroupState.STABLE


def test_if_nobody_syncs_the_group_is_empty() -> None:
    one = Coordinator()
    ids = one.joined_group("a", "b")
    one.wait(REBALANCE_MS, alive=ids)

    assert (one.group.state, one.group.generation) == (GroupState.EMPTY, 2)
