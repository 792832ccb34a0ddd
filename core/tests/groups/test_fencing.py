"""All members are taken out of a group at once."""

import pytest

from chiplog_core.groups.codes import Code
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import RANGE, Coordinator

WHY = "reset nightly-1"


def fence(one: Coordinator) -> None:
    one.carry_out(one.group.fence(WHY, one.now_ms))


def is_empty_again(one: Coordinator, generation: int) -> None:
    assert one.group.state is GroupState.EMPTY
    assert one.group.generation == generation
    assert one.group.next_deadline_ms is None
    assert one.stored[-1] == one.group.to_stored()
    assert (one.stored[-1].generation, one.stored[-1].members) == (generation, ())


@pytest.mark.parametrize("instance", [None, "i"])
def test_members_are_unknown_and_cannot_commit_any_more(instance: str | None) -> None:
    one = Coordinator()
    ids = one.stable_group("a", "b")
    given = {} if instance is None else {"group_instance_id": instance}
    if instance is not None:
        one = Coordinator()
        ids = one.stable_group("a", group_instance_id=instance)

    fence(one)

    is_empty_again(one, 2)
    for member_id in ids:
        for generation in (1, 2):
            assert one.heartbeat(member_id, generation, **given) is Code.UNKNOWN_MEMBER_ID
            assert one.commit(member_id, generation, **given) is Code.UNKNOWN_MEMBER_ID


def test_they_come_back_by_themselves_in_a_later_generation() -> None:
    one = Coordinator()
    one.stable_group("a", "b")

    fence(one)

    assert one.stable_group("a", "b")
    assert one.group.generation == 3


def test_who_waits_to_join_is_answered_and_the_initial_delay_is_over() -> None:
    one = Coordinator()
    token = one.join("a")
    assert one.waits(token)

    fence(one)

    assert one.joined(token).code is Code.UNKNOWN_MEMBER_ID
    is_empty_again(one, 1)


def test_who_waits_for_an_assignment_is_answered() -> None:
    one = Coordinator()
    _, b = one.joined_group("a", "b")
    token = one.sync(b)

    fence(one)

    assert one.synced(token).code is Code.UNKNOWN_MEMBER_ID
    is_empty_again(one, 2)


def test_who_waits_while_others_are_asked_to_join_again_is_answered() -> None:
    one = Coordinator()
    a, _ = one.stable_group("a", "b")
    token = one.join("a", a, protocols=(*RANGE, ("sticky", b"")))
    assert one.group.state is GroupState.PREPARING_REBALANCE

    fence(one)

    assert one.joined(token).code is Code.UNKNOWN_MEMBER_ID
    is_empty_again(one, 2)


def test_ids_that_were_given_out_are_worth_nothing() -> None:
    one = Coordinator()
    first = one.joined(one.join("a", requires_known_member_id=True))
    assert first.code is Code.MEMBER_ID_REQUIRED

    fence(one)

    assert one.stored == [], "nobody was a member: there is nothing to store"
    second = one.joined(one.join("a", first.member_id, requires_known_member_id=True))
    assert second.code is Code.UNKNOWN_MEMBER_ID


def test_a_group_without_members_stays_as_it_is() -> None:
    one = Coordinator()

    fence(one)

    assert (one.group.state, one.group.generation, one.log) == (GroupState.EMPTY, 0, [])
