"""JoinGroup: who becomes a member, when a generation begins, and what its members are told."""

import pytest

from chiplog_core.groups.answers import Joined, JoinedMember
from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import Leaving
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import BOTH, RANGE, REBALANCE_MS, SESSION_MS, Coordinator


def test_the_first_generation_begins_after_a_delay() -> None:
    one = Coordinator(initial_rebalance_delay_ms=3_000)
    token = one.join("a")
    one.wait(2_999)
    assert one.waits(token)

    one.wait(1)

    assert one.joined(token) == Joined(
        member_id="a-1",
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="a-1",
        members=(JoinedMember(member_id="a-1", group_instance_id=None, metadata=b"topics"),),
    )
    assert one.group.state is GroupState.COMPLETING_REBALANCE


def test_every_newcomer_puts_it_off_but_not_beyond_the_rebalance_timeout() -> None:
    """KIP-134."""
    one = Coordinator(initial_rebalance_delay_ms=3_000)
    first = one.join("a", rebalance_timeout_ms=10_000)
    began_ms = one.now_ms
    while one.waits(first):
        one.join("b", rebalance_timeout_ms=10_000)
        one.wait(1_000)

    assert one.now_ms - began_ms == 10_000


def test_without_newcomers_the_delay_ends() -> None:
    one = Coordinator(initial_rebalance_delay_ms=3_000)
    one.join("a")
    one.wait(1_000)
    token = one.join("b")
    one.wait(4_999)
    assert one.waits(token)

    one.wait(1)

    assert one.joined(token).generation == 1


def test_without_a_delay_it_begins_as_soon_as_something_is_due() -> None:
    one = Coordinator(initial_rebalance_delay_ms=0)
    token = one.join("a")
    assert one.group.next_deadline_ms == one.now_ms

    one.carry_out(one.group.advance(one.now_ms))

    assert one.joined(token).generation == 1


def test_only_the_leader_is_told_who_is_in_the_group() -> None:
    one = Coordinator()
    first, second = one.join("a"), one.join("b", protocols=(("range", b"others"),))
    one.wait(6_000)

    leader, follower = one.joined(first), one.joined(second)
    assert {member.member_id: member.metadata for member in leader.members} == {
        "a-1": b"topics",
        "b-2": b"others",
    }
    assert (follower.leader, follower.members) == ("a-1", ())


def test_a_thousand_that_join_at_once_are_one_generation() -> None:
    one = Coordinator()
    ids = one.stable_group(*(f"c{number}" for number in range(1_000)))
    assert (len(set(ids)), one.group.generation, len(one.stored)) == (1_000, 1, 2)

    one.wait(SESSION_MS)

    assert (one.group.state, one.group.generation) == (GroupState.EMPTY, 2)
    assert len(one.stored) == 3


def test_who_has_no_id_gets_one_and_joins_with_it() -> None:
    """KIP-394."""
    one = Coordinator()
    first = one.join("a", requires_known_member_id=True)
    assert one.joined(first) == Joined(code=Code.MEMBER_ID_REQUIRED, member_id="a-1")
    assert one.group.state is GroupState.EMPTY

    second = one.join("a", "a-1", requires_known_member_id=True)
    one.wait(3_000)

    assert one.joined(second).member_id == "a-1"


def test_an_id_that_is_not_used_is_forgotten_after_the_session_timeout() -> None:
    one = Coordinator()
    one.join("a", requires_known_member_id=True, session_timeout_ms=SESSION_MS)
    one.wait(SESSION_MS)

    assert one.joined(one.join("a", "a-1")).code is Code.UNKNOWN_MEMBER_ID
    assert one.group.next_deadline_ms is None


def test_a_rebalance_waits_for_an_id_that_was_given_out() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    one.join("c", requires_known_member_id=True)
    again = [one.join("a", a), one.join("b", b)]
    assert all(map(one.waits, again))

    one.wait(SESSION_MS)

    assert [one.joined(token).generation for token in again] == [2, 2]


@pytest.mark.parametrize(
    ("session_timeout_ms", "code"),
    [
        (5_999, Code.INVALID_SESSION_TIMEOUT),
        (6_000, Code.MEMBER_ID_REQUIRED),
        (1_800_000, Code.MEMBER_ID_REQUIRED),
        (1_800_001, Code.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeouts_have_bounds(session_timeout_ms: int, code: Code) -> None:
    one = Coordinator()
    token = one.join("a", session_timeout_ms=session_timeout_ms, requires_known_member_id=True)

    assert one.joined(token).code is code


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", RANGE), ("consumer", ()), ("connect", RANGE), ("consumer", (("other", b""),))],
)
def test_members_must_have_a_protocol_in_common(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    one = Coordinator()
    one.stable_group("a")
    token = one.join("b", protocol_type=protocol_type, protocols=protocols)

    assert one.joined(token) == Joined(code=Code.INCONSISTENT_GROUP_PROTOCOL)
    assert one.group.state is GroupState.STABLE


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_the_first_member_must_have_a_protocol(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    one = Coordinator()
    token = one.join("a", protocol_type=protocol_type, protocols=protocols)

    assert one.joined(token).code is Code.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_become_one_of_another_type() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a")
    one.wait(SESSION_MS)
    assert one.group.state is GroupState.EMPTY
    assert one.group.to_stored().protocol_type == "consumer"

    token = one.join("b", protocol_type="connect", protocols=(("sessioned", b""),))
    one.wait(3_000)

    assert one.joined(token).protocol_type == "connect"
    assert one.heartbeat(a) is Code.UNKNOWN_MEMBER_ID


def test_members_vote_for_what_they_like_most_of_what_all_support() -> None:
    one = Coordinator()
    sticky_first = (("sticky", b""), ("range", b""))
    tokens = [one.join("a", protocols=protocols) for protocols in (BOTH, sticky_first)]
    tokens += [one.join("b", protocols=(("best", b""), *sticky_first))]
    one.wait(6_000)

    assert {one.joined(token).protocol_name for token in tokens} == {"sticky"}


def test_a_protocol_that_its_last_supporter_took_away_is_none() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b", protocols=BOTH)
    one.join("a", a, protocols=RANGE)

    assert one.joined(one.join("b", b, protocols=BOTH[1:])).code is (
        Code.INCONSISTENT_GROUP_PROTOCOL
    )


@pytest.mark.parametrize("state", ["initial", "preparing", "completing", "stable"])
def test_an_unknown_id_is_unknown_in_every_state(state: str) -> None:
    one = Coordinator()
    if state == "initial":
        one.join("a")
    elif state == "completing":
        one.joined_group("a")
    else:
        one.stable_group("a")
    if state == "preparing":
        one.join("b")

    token = one.join("x", "x-77")

    assert one.joined(token) == Joined(code=Code.UNKNOWN_MEMBER_ID, member_id="x-77")


def test_a_follower_that_joins_again_learns_of_the_generation() -> None:
    one = Coordinator()
    _, b = one.stable_group("a", "b")
    token = one.join("b", b)

    assert (one.joined(token).generation, one.joined(token).members) == (1, ())
    assert one.group.state is GroupState.STABLE


def test_a_leader_that_joins_again_wants_to_assign_again() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    first = one.join("a", a)
    assert one.group.state is GroupState.PREPARING_REBALANCE
    assert one.heartbeat(b) is Code.REBALANCE_IN_PROGRESS

    second = one.join("b", b)

    assert (one.joined(first).generation, one.joined(first).leader) == (2, a)
    assert one.joined(second).generation == 2


@pytest.mark.parametrize("is_assigned", [False, True])
def test_who_changes_its_metadata_makes_all_join_again(is_assigned: bool) -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b") if is_assigned else one.joined_group("a", "b")
    token = one.join("b", b, protocols=(("range", b"more topics"),))
    assert one.waits(token)

    one.join("a", a)

    assert one.joined(token).generation == 2


def test_while_others_sync_a_repeated_join_gets_the_same_answer() -> None:
    one = Coordinator()
    a, b = one.joined_group("a", "b")

    leader, follower = one.joined(one.join("a", a)), one.joined(one.join("b", b))

    assert (leader.generation, len(leader.members)) == (1, 2)
    assert (follower.generation, len(follower.members)) == (1, 0)
    assert one.group.state is GroupState.COMPLETING_REBALANCE


def test_a_join_that_is_sent_again_takes_the_place_of_the_first() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    first, second = one.join("a", a), one.join("a", a)
    assert one.joined(first).code is Code.REBALANCE_IN_PROGRESS

    one.join("b", b)

    assert one.joined(second).generation == 2


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    token = one.join("a", a)
    one.wait(REBALANCE_MS - 1, alive=[b])
    assert one.waits(token)

    one.wait(1, alive=[b])

    assert [member.member_id for member in one.joined(token).members] == [a]
    assert one.heartbeat(b) is Code.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    one = Coordinator()
    first = one.join("a", rebalance_timeout_ms=20_000)
    one.join("b", rebalance_timeout_ms=50_000)
    one.wait(6_000)
    a, b = one.joined(first).member_id, "b-2"
    one.assign([a, b])
    token = one.join("a", a, rebalance_timeout_ms=20_000)

    one.wait(49_999, alive=[b])
    assert one.waits(token)
    one.wait(1, alive=[b])
    assert one.joined(token).generation == 2


def test_a_leader_that_stays_away_is_followed_by_whoever_joined_first() -> None:
    one = Coordinator()
    a, b, c = one.stable_group("a", "b", "c")
    token = one.join("c", c, protocols=(("range", b"changed"),))
    one.join("b", b)
    one.wait(REBALANCE_MS, alive=[a])

    assert one.joined(token).leader == c


def test_a_full_group_takes_nobody_else() -> None:
    """KIP-389."""
    one = Coordinator(max_size=2)
    _, b = one.stable_group("a", "b")

    assert one.joined(one.join("c")) == Joined(code=Code.GROUP_MAX_SIZE_REACHED)
    assert one.joined(one.join("b", b)).code is Code.NONE
    assert one.group.state is GroupState.STABLE


def test_ids_that_were_given_out_take_places() -> None:
    one = Coordinator(max_size=2)
    for _ in range(2):
        one.join("a", requires_known_member_id=True)

    assert one.joined(one.join("b")).code is Code.GROUP_MAX_SIZE_REACHED
    assert one.waits(one.join("a", "a-1"))
    assert one.waits(one.join("a", "a-2"))


@pytest.mark.parametrize("is_assigned", [False, True])
def test_a_group_that_is_too_large_keeps_those_that_join_first(is_assigned: bool) -> None:
    one = Coordinator(max_size=3)
    ids = one.joined_group("a", "b", "c")
    if is_assigned:
        one.assign(ids)
    one.limits = Coordinator(max_size=2).limits
    one.restart()
    assert one.group.state is GroupState.PREPARING_REBALANCE
    assert one.group.to_stored() == one.stored[-1]

    tokens = [one.join("x", member_id) for member_id in ids]

    assert [one.joined(token).code for token in tokens] == [
        Code.NONE,
        Code.NONE,
        Code.GROUP_MAX_SIZE_REACHED,
    ]
    assert len(one.group.describe().members) == 2


def test_somebody_new_does_not_wait_to_join_for_ever() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a", rebalance_timeout_ms=900_000)
    token = one.join("b", rebalance_timeout_ms=900_000)
    one.wait(299_999, alive=[a])
    assert one.waits(token)

    one.wait(1, alive=[a])

    assert one.joined(token) == Joined(code=Code.UNKNOWN_MEMBER_ID)


def test_a_member_may_wait_to_join_for_longer_than_its_session() -> None:
    one = Coordinator()
    a, b = one.stable_group("a", "b")
    token = one.join("a", a)
    one.wait(2 * SESSION_MS, alive=[b])
    assert one.waits(token)

    one.join("b", b)

    assert one.joined(token).code is Code.NONE


def test_a_member_that_says_too_much_is_refused() -> None:
    """What it says could not be stored; Kafka finds out when it is too late for all others."""
    one = Coordinator(max_member_bytes=1_000)
    a, _ = one.stable_group("a", "b")

    large = (("range", b"x" * 1_000),)
    assert one.joined(one.join("c", protocols=large)) == Joined(code=Code.GROUP_MAX_SIZE_REACHED)
    assert one.group.state is GroupState.STABLE
    assert one.joined(one.join("c", protocols=large, requires_known_member_id=True)).member_id == ""
    # A member that has become so large is none any more, as in a group that is too large.
    assert one.joined(one.join("a", a, protocols=large)).code is Code.GROUP_MAX_SIZE_REACHED
    assert one.joined(one.join("a", a)).code is Code.UNKNOWN_MEMBER_ID


def test_members_may_say_so_much_together() -> None:
    one = Coordinator(max_group_bytes=1_000)
    a, _ = one.stable_group("a", "b")
    before = one.group.size_bytes

    most = (("range", b"x" * 800),)
    assert one.joined(one.join("c", protocols=most * 2)).code is Code.GROUP_MAX_SIZE_REACHED
    one.join("a", a, protocols=most)  # in its own place there is room
    assert one.joined(one.join("c", protocols=most)).code is Code.GROUP_MAX_SIZE_REACHED
    assert one.group.size_bytes > before + 700
    one.leave(Leaving(member_id=a))
    one.join("c", protocols=most)
    assert one.group.size_bytes < before + 900


def test_only_so_many_ids_wait_for_somebody() -> None:
    one = Coordinator(max_pending=2)
    empty = one.group.size_bytes
    tokens = [one.join("a", requires_known_member_id=True) for _ in range(3)]

    assert [one.joined(token).code for token in tokens] == [
        Code.MEMBER_ID_REQUIRED,
        Code.MEMBER_ID_REQUIRED,
        Code.GROUP_MAX_SIZE_REACHED,
    ]
    assert one.group.size_bytes > empty
    one.wait(SESSION_MS)
    assert one.group.size_bytes == empty
    assert one.joined(one.join("a", requires_known_member_id=True)).code is Code.MEMBER_ID_REQUIRED
