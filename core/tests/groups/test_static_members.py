"""Static members (KIP-345): they may go away and come back without anybody else noticing."""

from typing import Any

import pytest

from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import Leaving
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import BOTH, REBALANCE_MS, SESSION_MS, Coordinator


def with_one_static(one: Coordinator, *, leads: bool, is_assigned: bool = True) -> tuple[str, str]:
    """A group of the static member `pod-0` and a dynamic one; their ids."""
    given: list[dict[str, Any]] = [{}, {"group_instance_id": "pod-0"}]
    tokens = [one.join("a", protocols=BOTH, **who) for who in (given[::-1] if leads else given)]
    one.wait(6_000)
    ids = [one.joined(token).member_id for token in tokens]
    if is_assigned:
        one.assign(ids)
    return (ids[0], ids[1]) if leads else (ids[1], ids[0])


def come_back(one: Coordinator, **given: Any) -> int:
    asked: dict[str, Any] = {"group_instance_id": "pod-0", "protocols": BOTH}
    return one.join("a", **(asked | given))


def test_it_needs_no_second_join() -> None:
    one = Coordinator()
    token = one.join("a", group_instance_id="pod-0", requires_known_member_id=True)
    one.wait(3_000)

    assert one.joined(token).member_id == "pod-0-1"


def test_it_takes_over_from_itself_and_nobody_joins_again() -> None:
    one = Coordinator()
    old, other = with_one_static(one, leads=False)
    token = come_back(one, client_host="/10.0.0.99")

    joined = one.joined(token)
    assert (joined.generation, joined.leader, joined.members) == (1, other, ())
    assert joined.member_id != old
    assert one.group.state is GroupState.STABLE
    assert one.synced(one.sync(joined.member_id)).assignment == old.encode()


def test_the_new_id_is_stored_before_it_is_told() -> None:
    one = Coordinator()
    with_one_static(one, leads=False)
    before = len(one.stored)
    new = one.joined(come_back(one, client_host="/10.0.0.99")).member_id

    assert len(one.stored) == before + 1
    stored = {member.member_id: member for member in one.stored[-1].members}
    assert stored[new].client_host == "/10.0.0.99"
    assert one.stored[-1] == one.log[-2].group, "stored, then answered"  # type: ignore[union-attr]


def test_the_old_id_is_fenced_wherever_it_shows_itself_as_this_instance() -> None:
    one = Coordinator()
    old, _ = with_one_static(one, leads=False)
    come_back(one)

    for instance, code in (("pod-0", Code.FENCED_INSTANCE_ID), (None, Code.UNKNOWN_MEMBER_ID)):
        assert one.heartbeat(old, group_instance_id=instance) is code
        assert one.commit(old, group_instance_id=instance) is code
        assert one.synced(one.sync(old, group_instance_id=instance)).code is code
        assert one.joined(come_back(one, member_id=old, group_instance_id=instance)).code is code
        assert one.leave(Leaving(member_id=old, group_instance_id=instance)) == [code]


def test_an_instance_that_is_no_member_is_unknown() -> None:
    one = Coordinator()
    old, _ = with_one_static(one, leads=False)

    assert one.heartbeat(old, group_instance_id="pod-9") is Code.UNKNOWN_MEMBER_ID


def test_a_waiting_join_of_the_old_id_is_fenced() -> None:
    one = Coordinator()
    old, other = with_one_static(one, leads=False)
    one.join("c", protocols=BOTH, requires_known_member_id=True)
    one.join("a", other, protocols=BOTH)
    waiting = come_back(one, member_id=old)

    new = come_back(one)

    assert one.joined(waiting).code is Code.FENCED_INSTANCE_ID
    assert one.waits(new)


def test_a_waiting_sync_of_the_old_id_is_fenced_and_all_join_again() -> None:
    """The leader may already be assigning to the old id."""
    one = Coordinator()
    old, other = with_one_static(one, leads=False, is_assigned=False)
    waiting = one.sync(old, group_instance_id="pod-0")
    new = come_back(one)
    assert one.synced(waiting).code is Code.FENCED_INSTANCE_ID
    assert one.group.state is GroupState.PREPARING_REBALANCE

    one.join("a", other, protocols=BOTH)

    assert one.joined(new).generation == 2


def test_a_leader_that_comes_back_is_told_to_leave_the_assignment_alone() -> None:
    """KIP-814."""
    one = Coordinator()
    with_one_static(one, leads=True)
    joined = one.joined(come_back(one))

    assert joined.leader == joined.member_id == one.stored[-1].leader
    assert joined.skip_assignment
    assert len(joined.members) == 2


def test_a_leader_that_cannot_be_told_is_not_told_that_it_leads() -> None:
    one = Coordinator()
    old, _ = with_one_static(one, leads=True)
    joined = one.joined(come_back(one, supports_skipping_assignment=False))

    assert (joined.leader, joined.skip_assignment, joined.members) == (old, False, ())


def test_all_join_again_where_another_protocol_would_be_chosen() -> None:
    one = Coordinator()
    _, other = with_one_static(one, leads=False)
    token = come_back(one, protocols=BOTH[1:])
    assert one.waits(token)

    one.join("a", other, protocols=BOTH)

    assert (one.joined(token).generation, one.joined(token).protocol_name) == (2, "sticky")


def test_metadata_that_differs_is_no_reason() -> None:
    """It may say what is owned right now, which differs with every start."""
    one = Coordinator()
    with_one_static(one, leads=False)
    new = one.joined(come_back(one, protocols=(("range", b"nothing owned"),))).member_id

    assert one.group.state is GroupState.STABLE
    stored = {member.member_id: member for member in one.stored[-1].members}
    assert stored[new].subscription == b"nothing owned"


def test_it_keeps_its_place_when_it_misses_a_rebalance_until_its_session_ends() -> None:
    one = Coordinator()
    session_ms = 3 * REBALANCE_MS
    token = one.join("a", group_instance_id="pod-0", session_timeout_ms=session_ms)
    second = one.join("b")
    one.wait(6_000)
    away, b = one.joined(token).member_id, one.joined(second).member_id
    one.assign([away, b])
    left_ms = one.now_ms
    again = one.join("b", b, protocols=(("range", b"changed"),))

    one.wait(REBALANCE_MS)
    assert [member.member_id for member in one.joined(again).members] == [away, b]
    one.sync(b, {b: b"half", away: b"half"})
    one.wait(left_ms + session_ms - one.now_ms - 1, alive=[b])
    assert one.group.state is GroupState.STABLE

    one.wait(1, alive=[b])

    assert [member.member_id for member in one.group.describe().members] == [b]


def test_if_all_are_away_the_rebalance_waits_until_one_is_back() -> None:
    one = Coordinator()
    given: dict[str, Any] = {"session_timeout_ms": 10 * REBALANCE_MS, "group_instance_id": "pod-0"}
    token = one.join("a", **given)
    second = one.join("b")
    one.wait(6_000)
    one.assign([one.joined(token).member_id, one.joined(second).member_id])
    one.leave(Leaving(member_id=one.joined(second).member_id))
    one.wait(3 * REBALANCE_MS)
    assert one.group.state is GroupState.PREPARING_REBALANCE

    back = one.join("a", **given)

    assert one.joined(back).generation == 2


def test_waiting_for_those_that_are_away_takes_time_even_with_no_rebalance_timeout() -> None:
    one = Coordinator(initial_rebalance_delay_ms=0)
    token = one.join("a", group_instance_id="pod-0", rebalance_timeout_ms=0)
    one.carry_out(one.group.advance(one.now_ms))
    one.assign([one.joined(token).member_id])
    second = one.join("b", rebalance_timeout_ms=0)
    one.leave(Leaving(member_id="b-2"))
    assert one.joined(second).code is Code.UNKNOWN_MEMBER_ID

    one.carry_out(one.group.advance(one.now_ms))

    assert one.group.state is GroupState.PREPARING_REBALANCE
    assert one.group.next_deadline_ms == one.now_ms + 1


def test_it_takes_its_own_place_in_a_full_group() -> None:
    one = Coordinator(max_size=2)
    with_one_static(one, leads=False)

    assert one.joined(come_back(one)).code is Code.NONE


def test_an_id_that_was_given_to_a_dynamic_member_is_not_a_static_one_s() -> None:
    one = Coordinator()
    one.join("a", requires_known_member_id=True)

    assert one.joined(come_back(one, member_id="a-1")).code is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("member_id", ["", "own"])
def test_it_leaves_by_its_instance(member_id: str) -> None:
    one = Coordinator()
    old, other = with_one_static(one, leads=False)
    who = Leaving(member_id=old if member_id else "", group_instance_id="pod-0")

    assert one.leave(who) == [Code.NONE]
    assert [member.member_id for member in one.group.describe().members] == [other]


@pytest.mark.parametrize("was_back", [False, True])
def test_sessions_of_static_members_end_like_any_other(was_back: bool) -> None:
    one = Coordinator()
    _, other = with_one_static(one, leads=False)
    if was_back:
        come_back(one)
    one.wait(SESSION_MS, alive=[other])

    assert one.group.state is GroupState.PREPARING_REBALANCE


def test_who_comes_back_before_it_has_synced_may_take_its_time() -> None:
    one = Coordinator()
    _, leader = with_one_static(one, leads=False, is_assigned=False)
    one.sync(leader, {leader: b"all"})
    new = one.joined(come_back(one)).member_id
    one.wait(REBALANCE_MS, alive=[leader, new])

    assert one.heartbeat(new) is Code.NONE
