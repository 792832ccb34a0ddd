"""LeaveGroup, heartbeats, and sessions that end."""

import pytest

from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import Leaving
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import SESSION_MS, Coordinator


def test_a_heartbeat_is_fine_while_there_is_a_generation() -> None:
    one = Coordinator()
    ids = one.joined_group("a")
    assert one.heartbeat(ids[0]) is Code.NONE

    one.assign(ids)

    assert one.heartbeat(ids[0]) is Code.NONE


def test_a_heartbeat_of_nobody_or_of_another_generation_is_not() -> None:
    one = Coordinator()
    assert one.heartbeat("a-1") is Code.UNKNOWN_MEMBER_ID
    (a,) = one.stable_group("a")

    assert one.heartbeat("x-2") is Code.UNKNOWN_MEMBER_ID
    assert one.heartbeat("") is Code.UNKNOWN_MEMBER_ID
    assert one.heartbeat(a, generation=0) is Code.ILLEGAL_GENERATION
    assert one.heartbeat(a, generation=2) is Code.ILLEGAL_GENERATION


def test_an_id_that_was_only_given_out_has_no_heartbeat() -> None:
    one = Coordinator()
    one.join("a", requires_known_member_id=True)

    assert one.heartbeat("a-1") is Code.UNKNOWN_MEMBER_ID


def test_a_heartbeat_that_is_told_to_join_again_keeps_the_session() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.join("a", a)
    one.wait(3 * SESSION_MS, alive=[b])

    assert one.heartbeat(b) is Code.REBALANCE_IN_PROGRESS


def test_a_session_ends_without_heartbeats_and_the_others_join_again() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.wait(SESSION_MS - 1, alive=[a])
    assert one.heartbeat(a) is Code.NONE

    one.wait(1, alive=[a])

    assert one.heartbeat(a) is Code.REBALANCE_IN_PROGRESS
    assert one.heartbeat(b) is Code.UNKNOWN_MEMBER_ID
    assert one.group.why == f"{b} sent no heartbeat in time"


def test_who_was_told_of_its_generation_and_falls_silent_is_given_up() -> None:
    one = Coordinator()
    _, b = one.joined_group("a", "b")
    one.wait(SESSION_MS, alive=[b])

    assert [member.member_id for member in one.group.describe().members] == [b]


def test_a_session_that_ends_while_others_wait_to_join_lets_them_go_on() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    token = one.join("a", a)
    one.wait(SESSION_MS)

    assert [member.member_id for member in one.joined(token).members] == [a]
    assert one.heartbeat(b) is Code.UNKNOWN_MEMBER_ID


def test_with_its_last_member_gone_the_group_is_empty_in_a_new_generation() -> None:
    one = Coordinator()
    one.stable_group("a", "b")
    one.wait(SESSION_MS)

    assert (one.group.state, one.group.generation) == (GroupState.EMPTY, 2)
    stored = one.stored[-1]
    assert (stored.generation, stored.members, stored.leader, stored.protocol) == (
        2,
        (),
        None,
        None,
    )
    assert stored.current_state_timestamp_ms == one.wall_ms
    assert one.group.next_deadline_ms is None


def test_an_empty_group_that_somebody_joins_again_waits_for_others() -> None:
    one = Coordinator()
    one.stable_group("a")
    one.wait(SESSION_MS)
    token = one.join("b")
    assert one.waits(token)

    one.wait(3_000)

    assert one.joined(token).generation == 3


@pytest.mark.parametrize("is_assigned", [False, True])
def test_who_leaves_makes_the_others_join_again(is_assigned: bool) -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b") if is_assigned else one.joined_group("a", "b")

    assert one.leave(Leaving(member_id=b, reason="the consumer is being closed")) == [Code.NONE]
    assert one.heartbeat(a) is Code.REBALANCE_IN_PROGRESS
    assert one.group.why == f"{b} (the consumer is being closed) left"


def test_many_leave_at_once_and_each_has_its_code() -> None:
    one = Coordinator()
    a, b, c = one.stable_group("a", "b", "c")
    one.join("d", requires_known_member_id=True)

    codes = one.leave(
        Leaving(member_id=a),
        Leaving(member_id=a),
        Leaving(),
        Leaving(group_instance_id="nobody"),
        Leaving(member_id=b, group_instance_id="nobody"),
        Leaving(member_id="d-4"),
        Leaving(member_id=c),
    )

    unknown = Code.UNKNOWN_MEMBER_ID
    assert codes == [Code.NONE, unknown, unknown, unknown, unknown, Code.NONE, Code.NONE]
    assert [member.member_id for member in one.group.describe().members] == [b]


def test_who_leaves_an_empty_group_is_unknown() -> None:
    one = Coordinator()

    assert one.leave(Leaving(member_id="a-1")) == [Code.UNKNOWN_MEMBER_ID]
    assert one.stored == []


def test_an_id_that_was_given_out_and_is_given_back_rebalances_nobody() -> None:
    one = Coordinator()
    one.stable_group("a")
    one.join("b", requires_known_member_id=True)

    assert one.leave(Leaving(member_id="b-2")) == [Code.NONE]
    assert one.group.state is GroupState.STABLE


def test_an_id_that_is_given_back_holds_up_nobody() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.join("b", requires_known_member_id=True)
    token = one.join("a", a)
    assert one.waits(token)

    one.leave(Leaving(member_id="b-2"))

    assert one.joined(token).generation == 2


def test_who_leaves_while_it_waits_is_answered() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    sync = one.sync(b)
    one.leave(Leaving(member_id=b))
    assert one.synced(sync).code is Code.UNKNOWN_MEMBER_ID

    join = one.join("c")
    one.leave(Leaving(member_id="c-3"))
    assert one.joined(join).code is Code.UNKNOWN_MEMBER_ID
    assert one.heartbeat(a) is Code.REBALANCE_IN_PROGRESS


def test_when_all_members_leave_nobody_waits_for_ids_that_were_given_out() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.join("b", requires_known_member_id=True)
    one.leave(Leaving(member_id=a))
    assert one.group.state is GroupState.EMPTY

    token = one.join("b", "b-2")
    one.wait(3_000)

    assert one.joined(token).generation == 3


def test_a_first_member_that_leaves_again_leaves_an_empty_group() -> None:
    one = Coordinator()
    one.join("a")
    one.leave(Leaving(member_id="a-1"))
    one.wait(3_000)

    assert (one.group.state, one.group.generation) == (GroupState.EMPTY, 1)
