"""What is stored and when, and what another coordinator makes of it."""

import pytest

from chiplog_core.groups.answers import Answer, Store
from chiplog_core.groups.codes import Code
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.membership import Membership
from chiplog_core.groups.stored import StoredGroup, StoredMember, empty_group
from chiplog_core.ids import MAX_INT32
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import BOTH, RANGE, REBALANCE_MS, SESSION_MS, Coordinator


def test_a_generation_is_stored_when_it_begins_and_when_it_is_assigned() -> None:
    one = Coordinator()
    one.join("a", protocols=BOTH)
    assert one.stored == []
    one.wait(3_000)
    joined_ms = one.wall_ms
    member = StoredMember(
        member_id="a-1",
        group_instance_id=None,
        client_id="a",
        client_host="/10.0.0.1",
        rebalance_timeout_ms=REBALANCE_MS,
        session_timeout_ms=SESSION_MS,
        subscription=b"topics",
        assignment=b"",
    )
    begun = StoredGroup(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="a-1",
        current_state_timestamp_ms=joined_ms,
        members=(member,),
    )
    assert one.stored == [begun]
    assert not begun.is_assigned

    one.wait(500)
    one.sync("a-1", {"a-1": b"all"})

    assert one.stored[1].current_state_timestamp_ms == joined_ms + 500
    assert one.stored[1].members[0].assignment == b"all"
    assert one.stored[1].is_assigned


def test_what_is_stored_has_the_wall_clocks_time_and_deadlines_do_not_depend_on_it() -> None:
    one = Coordinator()
    (a,) = one.joined_group("a")
    due_ms = one.group.next_deadline_ms
    one.wall_ahead_ms += 3_600_000
    assert one.group.next_deadline_ms == due_ms
    one.sync(a, {a: b"all"})
    assert one.stored[-1].current_state_timestamp_ms == one.wall_ms
    states = []
    for duration_ms in (SESSION_MS - 1, 1):
        one.wait(duration_ms)
        states.append(one.group.state)
    assert states == [GroupState.STABLE, GroupState.EMPTY]


def test_what_is_answered_was_stored_before() -> None:
    one = Coordinator()
    one.stable_group("a", "b")

    kinds = [type(effect) for effect in one.log]
    assert kinds == [Store, Answer, Answer, Store, Answer, Answer]


def test_a_generation_begins_without_the_assignments_of_the_one_before() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.join("a", a)
    one.join("b", b)

    assert one.stored[-1].generation == 2
    assert not one.stored[-1].is_assigned


def test_while_a_rebalance_is_prepared_the_generation_before_counts() -> None:
    one = Coordinator()
    a, _ = one.stable_group("a", "b")
    one.join("c")
    one.join("a", a, session_timeout_ms=2 * SESSION_MS)

    assert one.group.to_stored() == one.stored[-1]
    assert one.group.to_stored().generation == 1


def test_an_assigned_group_goes_on_at_another_coordinator() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.restart()

    assert one.group.state is GroupState.STABLE
    assert one.group.to_stored() == one.stored[-1]
    assert one.heartbeat(a) is Code.NONE
    assert one.synced(one.sync(b)).assignment == b.encode()
    assert len(one.stored) == 2


def test_sessions_begin_anew() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.wait(SESSION_MS - 1)
    one.restart()
    one.wait(SESSION_MS - 1)
    assert one.heartbeat(a) is Code.NONE

    one.wait(SESSION_MS)

    assert one.group.state is GroupState.EMPTY


def test_a_generation_without_assignment_is_completed_at_another_coordinator() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    one.restart()
    assert one.group.state is GroupState.COMPLETING_REBALANCE
    assert one.group.to_stored() == one.stored[-1]

    one.assign([a, b])

    assert one.group.generation == 1


def test_whoever_was_not_answered_joins_again_and_gets_the_same_answer() -> None:
    """Only what is chosen is stored of its protocols, and that is enough."""
    one = Coordinator()
    a, b = one.joined_group("a", "b", protocols=BOTH)
    one.restart()

    leader = one.joined(one.join("a", a, protocols=BOTH))
    follower = one.joined(one.join("b", b, protocols=BOTH))

    assert (leader.generation, len(leader.members)) == (1, 2)
    assert (follower.generation, follower.leader) == (1, a)
    assert one.group.to_stored() == one.stored[-1]
    # From here on all its protocols are known again.
    assert one.waits(one.join("b", b, protocols=RANGE))


def test_whoever_has_other_metadata_than_was_stored_makes_all_join_again() -> None:
    one = Coordinator()
    _, b = one.stable_group("a", "b")
    one.restart()

    assert one.waits(one.join("b", b, protocols=(("range", b"more topics"),)))


def test_a_leader_that_is_gone_is_not_waited_for_longer_than_the_rebalance_timeout() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    one.restart()
    token = one.sync(b)
    one.wait(REBALANCE_MS, alive=[a])

    assert one.synced(token).code is Code.REBALANCE_IN_PROGRESS
    assert one.heartbeat(a) is Code.UNKNOWN_MEMBER_ID


def test_static_members_may_have_been_away_and_need_not_sync() -> None:
    one = Coordinator()
    token = one.join("a")
    away = one.join("b", group_instance_id="pod-0", session_timeout_ms=3 * REBALANCE_MS)
    one.wait(6_000)
    a, b = one.joined(token).member_id, one.joined(away).member_id
    one.restart()
    one.sync(a, {a: b"half", b: b"half"})
    one.wait(2 * REBALANCE_MS, alive=[a])

    assert one.group.state is GroupState.STABLE


def test_a_static_leader_must_sync() -> None:
    one = Coordinator()
    (a,) = one.joined_group("a", group_instance_id="pod-0", session_timeout_ms=9 * REBALANCE_MS)
    one.restart()
    one.wait(REBALANCE_MS)

    assert one.heartbeat(a) is Code.UNKNOWN_MEMBER_ID


def test_a_stored_group_without_a_leader_finds_one() -> None:
    """We never store one; what others wrote must not stand still."""
    one = Coordinator()
    one.joined_group("a", group_instance_id="pod-0", session_timeout_ms=9 * REBALANCE_MS)
    stored = one.stored[-1]
    one.stored.append(
        StoredGroup(
            protocol_type=stored.protocol_type,
            generation=1,
            protocol="range",
            leader=None,
            current_state_timestamp_ms=-1,
            members=stored.members,
        )
    )
    one.restart()
    one.wait(REBALANCE_MS)

    back = one.join("a", group_instance_id="pod-0")

    assert one.joined(back).generation == 2


def test_an_empty_group_is_empty_again() -> None:
    one = Coordinator()
    one.stable_group("a")
    one.wait(SESSION_MS)
    one.restart()

    assert (one.group.state, one.group.generation) == (GroupState.EMPTY, 2)
    assert one.group.to_stored() == one.stored[-1]
    assert one.group.next_deadline_ms is None


def test_generations_begin_anew_after_the_last_number() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    last = one.stored[-1]
    one.stored.append(
        StoredGroup(
            protocol_type=last.protocol_type,
            generation=MAX_INT32,
            protocol=last.protocol,
            leader=last.leader,
            current_state_timestamp_ms=0,
            members=last.members,
        )
    )
    one.restart()

    assert one.joined(one.join("a", a)).generation == 1


def test_a_group_that_never_was_has_nothing_stored() -> None:
    group = Membership("orders", Limits(), str, int)

    assert group.to_stored() == StoredGroup(
        protocol_type=None,
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=-1,
        members=(),
    )


@pytest.mark.parametrize("code", [Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE])
def test_an_abandoned_group_answers_all_that_wait(code: Code) -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")
    sync = one.sync(b)
    one.carry_out(one.group.abandon(code))
    assert one.synced(sync).code is code

    one.restart()
    join = one.join("c")
    one.carry_out(one.group.abandon(code))
    assert one.joined(join).code is code
    assert one.group.to_stored() == one.stored[-1]
    with pytest.raises(AssertionError, match="was abandoned"):
        one.heartbeat(a)


def test_a_group_that_never_had_a_member_has_no_generation_and_no_protocol() -> None:
    assert empty_group(77) == StoredGroup(
        protocol_type=None,
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=77,
        members=(),
    )
    assert not empty_group(77).is_assigned
