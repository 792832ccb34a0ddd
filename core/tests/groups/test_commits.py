"""Who may commit offsets, and when."""

import pytest

from chiplog_core.groups.codes import Code
from tests.groups.coordinator import SESSION_MS, Coordinator


def test_members_of_the_generation_may() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")

    assert one.commit(a) is Code.NONE
    assert one.commit(b, generation=0) is Code.ILLEGAL_GENERATION
    assert one.commit(b, generation=2) is Code.ILLEGAL_GENERATION
    assert one.commit(b, generation=-1) is Code.ILLEGAL_GENERATION
    assert one.commit("x-3") is Code.UNKNOWN_MEMBER_ID


def test_members_may_once_more_before_they_join_again() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.join("a", a)

    assert one.commit(b) is Code.NONE


def test_members_may_not_before_they_have_their_assignment() -> None:
    one = Coordinator()
    (a,) = one.joined_group("a")

    assert one.commit(a) is Code.REBALANCE_IN_PROGRESS


def test_a_commit_counts_as_a_heartbeat() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.wait(SESSION_MS - 1)
    one.commit(a)
    one.wait(SESSION_MS - 1)

    assert one.heartbeat(a) is Code.NONE


@pytest.mark.parametrize("member_id", ["", "tool"])
def test_others_may_while_there_are_no_members(member_id: str) -> None:
    one = Coordinator()
    assert one.commit(member_id, generation=-1) is Code.NONE
    assert one.commit(member_id, generation=0) is Code.UNKNOWN_MEMBER_ID

    one.join("a")

    assert one.commit(member_id, generation=-1) is Code.UNKNOWN_MEMBER_ID


def test_others_may_again_once_the_members_are_gone() -> None:
    one = Coordinator()
    one.stable_group("a")
    assert one.commit("", generation=-1) is Code.UNKNOWN_MEMBER_ID
    one.wait(SESSION_MS)

    assert one.commit("", generation=-1) is Code.NONE


@pytest.mark.parametrize("is_joining", [False, True])
def test_in_a_transaction_members_may_in_every_phase(is_joining: bool) -> None:
    one = Coordinator()
    (a,) = one.joined_group("a")
    generation = one.group.generation
    if is_joining:
        one.join("b")

    assert one.commit_in_transaction(a, generation) is Code.NONE
    assert one.commit_in_transaction(a, generation - 1) is Code.ILLEGAL_GENERATION
    assert one.commit_in_transaction(a, -1) is Code.ILLEGAL_GENERATION
    assert one.commit_in_transaction("x-3", generation) is Code.UNKNOWN_MEMBER_ID
    assert one.commit_in_transaction("", generation) is Code.UNKNOWN_MEMBER_ID


def test_in_a_transaction_clients_that_know_no_members_may_always() -> None:
    one = Coordinator()
    assert one.commit_in_transaction("", -1) is Code.NONE
    assert one.commit_in_transaction("tool", -1) is Code.NONE
    one.stable_group("a")
    assert one.commit_in_transaction("", -1) is Code.NONE
    assert one.commit_in_transaction("tool", -1) is Code.UNKNOWN_MEMBER_ID
    instance = {"group_instance_id": "i"}
    assert one.commit_in_transaction("", -1, **instance) is Code.UNKNOWN_MEMBER_ID


def test_a_commit_in_a_transaction_is_no_heartbeat() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.wait(SESSION_MS - 1)
    assert one.commit_in_transaction(a, one.group.generation) is Code.NONE
    one.wait(2)

    assert one.heartbeat(a) is Code.UNKNOWN_MEMBER_ID
