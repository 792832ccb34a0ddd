"""Members that send anything at any time, coordinators that are lost: what always holds.

The world keeps the contract of `Membership`: what is to be stored is appended, and answers are
held until all that was appended before them is safe. A coordinator that is lost takes with it
what was not safe, and the answers that were held.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from chiplog_core.groups.answers import Answer, Effect, Joined, Left, Store, Synced
from chiplog_core.groups.codes import Code
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.member import Member
from chiplog_core.groups.membership import Membership
from chiplog_core.groups.requests import Identity, Join, Leaving, Sync
from chiplog_core.groups.stored import StoredGroup
from chiplog_core.model.group_status import GroupState

INITIAL_DELAYS_MS = (0, 3_000)
REBALANCES_MS = (0, 1_000, 20_000)
SESSIONS_MS = (6_000, 10_000, 40_000)
PROTOCOLS = (
    (("range", b"topics"),),
    (("range", b"other topics"),),
    (("range", b"topics"), ("sticky", b"topics")),
    (("sticky", b"topics"),),
)
JOINS = st.fixed_dictionaries(
    {
        "group_instance_id": st.sampled_from([None, None, "pod-0", "pod-1"]),
        "session_timeout_ms": st.sampled_from(SESSIONS_MS),
        "rebalance_timeout_ms": st.sampled_from([20_000, 20_000, 20_000, *REBALANCES_MS]),
        "protocols": st.sampled_from([PROTOCOLS[0], PROTOCOLS[2], *PROTOCOLS]),
        "requires_known_member_id": st.booleans(),
        "supports_skipping_assignment": st.booleans(),
    }
)
SOMEBODY = st.integers(0, 30)
NEARLY_ALWAYS_RIGHT = st.sampled_from([0, 0, 0, 0, 0, -1, 1])


@dataclass(frozen=True)
class Asked:
    """A request that has not been answered."""

    kind: str
    member_id: str
    generation: int
    requested_ms: int


class World(RuleBasedStateMachine):
    """One group, its partition of `__consumer_offsets`, and everybody who ever asked."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.numbers = iter(range(1_000_000))
        self.asked: dict[int, Asked] = {}
        self.held: list[Effect] = []
        self.appended: list[StoredGroup] = []
        self.safe = 0
        """So many of them are below the high watermark."""
        self.ids = ["x-0"]
        """All that anybody was ever told, and one that is made up."""
        self.instances: dict[str, str | None] = {}
        self.leaders: dict[int, str] = {}
        self.limits = Limits()
        self.group = Membership("g", self.limits, self.new_id, to_wall_ms=int)

    @initialize(delay_ms=st.sampled_from(INITIAL_DELAYS_MS), max_size=st.sampled_from([3, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.limits = Limits(
            initial_rebalance_delay_ms=delay_ms,
            max_size=max_size,
            new_member_join_timeout_ms=15_000,
        )
        self.group = Membership("g", self.limits, self.new_id, to_wall_ms=int)

    def new_id(self, name: str) -> str:
        return f"{name}-{next(self.numbers)}"

    # ---- what a broker does

    def take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.appended.append(effect.group)
                self.held.append(effect)
            else:
                assert isinstance(effect.token, int)
                asked = self.asked.pop(effect.token)  # or it was answered before
                self.held.append(Answer(asked, effect.answer))
        self.becomes_safe(0)

    def becomes_safe(self, records: int) -> None:
        """So many records more; what was held for them alone goes out."""
        while self.held:
            effect = self.held[0]
            if isinstance(effect, Answer):
                assert isinstance(effect.token, Asked)
                self.tell(effect.token, effect.answer)
            elif records:
                records -= 1
                self.safe += 1
            else:
                return
            del self.held[0]

    @rule(records=st.sampled_from([1, 1_000, 1_000]))
    def the_high_watermark_rises(self, records: int) -> None:
        self.becomes_safe(records)

    @rule(how=st.sampled_from(["killed", "killed", "stepped down"]))
    def the_coordinator_is_lost(self, how: str) -> None:
        if how == "stepped down":
            self.take(self.group.abandon(Code.NOT_COORDINATOR))
            assert not self.asked, "whoever waits is told"
        event(f"{how} in {self.group.state}")
        del self.appended[self.safe :]
        self.held.clear()
        self.asked.clear()
        self.group = Membership("g", self.limits, self.new_id, to_wall_ms=int)
        if self.appended:
            self.group = Membership.from_stored(
                "g", self.appended[-1], self.limits, self.new_id, int, self.now_ms
            )

    @rule(duration_ms=st.sampled_from([1, 500, 1_000, 3_000, 6_000, 20_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.take(self.group.advance(self.now_ms))
        due_ms = self.group.next_deadline_ms
        assert due_ms is None or due_ms > self.now_ms, "what was due is done"
        for asked in self.asked.values():
            most_ms = max(*REBALANCES_MS, self.limits.initial_rebalance_delay_ms)
            assert self.now_ms < asked.requested_ms + most_ms, "nobody waits for longer"

    # ---- what is told

    def tell(self, asked: Asked, answer: Joined | Synced | Left) -> None:
        match answer:
            case Joined(code=Code.NONE):
                self.tell_joined(answer)
            case Joined(code=Code.MEMBER_ID_REQUIRED):
                self.ids.append(answer.member_id)
            case Synced(code=Code.NONE):
                self.tell_synced(asked, answer)

    def tell_joined(self, answer: Joined) -> None:
        self.ids.append(answer.member_id)
        found = [one for one in self.appended[: self.safe] if one.generation == answer.generation]
        assert found, "a generation is safe before anybody is told of it"
        assert answer.member_id in {member.member_id for one in found for member in one.members}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            leader = self.leaders.setdefault(answer.generation, answer.member_id)
            assert leader == answer.member_id, "one member of a generation is told to assign"

    def tell_synced(self, asked: Asked, answer: Synced) -> None:
        event("an assignment is told")
        given = {
            (member.member_id, member.assignment)
            for one in self.appended[: self.safe]
            if one.generation == asked.generation and one.is_assigned
            for member in one.members
        }
        assert (asked.member_id, answer.assignment) in given, "what is told is stored"

    # ---- what members do

    def token(self, kind: str, member_id: str = "", generation: int = -1) -> int:
        token = next(self.numbers)
        self.asked[token] = Asked(kind, member_id, generation, self.now_ms)
        return token

    def somebody(self, number: int) -> str:
        """The last ones are asked for most."""
        return self.ids[-1 - number % len(self.ids)] if number < 25 else ""

    @rule(who=SOMEBODY, given=JOINS, keeps=st.booleans())
    def joins(self, who: int, given: dict[str, Any], keeps: bool) -> None:
        member_id = self.somebody(who)
        if keeps and member_id in self.instances:
            given = given | {"group_instance_id": self.instances[member_id]}
        self.send_join(member_id, **given)

    @rule(given=JOINS, uses_its_id=st.booleans())
    def somebody_new_joins(self, given: dict[str, Any], uses_its_id: bool) -> None:
        before = len(self.ids)
        self.send_join("", **given)
        if uses_its_id and len(self.ids) > before:
            self.send_join(self.ids[-1], **given)

    def send_join(self, member_id: str, **given: Any) -> None:
        request = Join(
            member_id=member_id,
            client_id="c",
            client_host="/10.0.0.1",
            protocol_type="consumer",
            **given,
        )
        token = self.token("join", member_id)
        self.take(self.group.join(token, request, self.now_ms))
        for member in self.group.describe().members:
            self.instances[member.member_id] = member.group_instance_id

    @rule(who=SOMEBODY, off=NEARLY_ALWAYS_RIGHT)
    def syncs(self, who: int, off: int) -> None:
        self.send_sync(self.somebody(who), self.group.generation + off)

    @rule(forgets=st.sampled_from([False, False, True]))
    def the_leader_syncs(self, forgets: bool) -> None:
        leader = self.group.to_stored().leader
        self.send_sync(leader or "", self.group.generation, forgets=forgets)

    def send_sync(self, member_id: str, generation: int, *, forgets: bool = False) -> None:
        members = [member.member_id for member in self.group.describe().members]
        forgotten = 1 if forgets and len(members) > 1 else 0
        request = Sync(
            member_id=member_id,
            group_instance_id=self.instances.get(member_id),
            generation=generation,
            assignments={one: f"{one} in {generation}".encode() for one in members[forgotten:]},
        )
        token = self.token("sync", member_id, generation)
        self.take(self.group.sync(token, request, self.now_ms))

    @rule(who=SOMEBODY, off=NEARLY_ALWAYS_RIGHT)
    def is_alive(self, who: int, off: int) -> None:
        member_id = self.somebody(who)
        identity = Identity(
            member_id=member_id,
            group_instance_id=self.instances.get(member_id),
            generation=self.group.generation + off,
        )
        self.group.heartbeat(identity, self.now_ms)
        self.group.check_commit(identity, self.now_ms)

    @rule()
    def all_are_alive(self) -> None:
        for member_id in self.ids:
            identity = Identity(member_id=member_id, generation=self.group.generation)
            self.group.heartbeat(identity, self.now_ms)

    @rule(who=st.lists(SOMEBODY, max_size=3), instance=st.sampled_from([None, None, "pod-0"]))
    def leaves(self, who: list[int], instance: str | None) -> None:
        leaving = [Leaving(member_id=self.somebody(one)) for one in who]
        if instance:
            leaving.append(Leaving(group_instance_id=instance))
        self.take(self.group.leave(self.token("leave"), leaving, self.now_ms))

    @rule(seconds=st.integers(1, 5), leader_assigns=st.booleans())
    def all_behave_for_a_while(self, seconds: int, leader_assigns: bool) -> None:
        """Else hardly anybody would ever wait for an assignment, or get one."""
        for _ in range(seconds):
            self.time_passes(1_000)
            self.all_behave(leader_assigns)
        self.becomes_safe(1_000)

    @rule(given=JOINS)
    def a_static_member_comes_back(self, given: dict[str, Any]) -> None:
        self.send_join("", **(given | {"group_instance_id": "pod-0"}))

    # ---- what always holds

    @invariant()
    def live_equals_replay(self) -> None:
        if self.appended:
            assert self.group.to_stored() == self.appended[-1]
        else:
            assert self.group.generation == 0

    @invariant()
    def who_is_not_answered_waits(self) -> None:
        inside = self.group._group
        assert set(self.asked) == {*inside.joins.values(), *inside.syncs.values()}
        is_preparing = self.group.state is GroupState.PREPARING_REBALANCE
        assert not inside.joins or is_preparing
        assert not inside.syncs or self.group.state is GroupState.COMPLETING_REBALANCE

    @invariant()
    def everybody_may_be_given_up(self) -> None:
        inside = self.group._group
        watched = inside.sessions._due_ms.keys() | inside.joins.keys() | inside.syncs.keys()
        known = {member.member_id for member in inside.roster} | inside.pending
        assert known <= watched
        assert inside.sessions._due_ms.keys() <= known
        assert all(one in watched - inside.syncs.keys() for one in inside.pending)

    @invariant()
    def phases_end(self) -> None:
        inside = self.group._group
        is_preparing = self.group.state is GroupState.PREPARING_REBALANCE
        assert (inside.join_due_ms is not None) == is_preparing
        if self.group.state is GroupState.COMPLETING_REBALANCE:
            assert inside.sync_due_ms is not None
        if inside.sync_due_ms is None:
            assert not inside.unsynced

    @invariant()
    def generations_only_rise_and_keep_their_leader_and_assignment(self) -> None:
        for before, later in zip(self.appended, self.appended[1:], strict=False):
            assert later.generation - before.generation in {0, 1}
            if later.generation == before.generation:
                assert leads(before) == leads(later)
                if before.is_assigned:
                    assert assignments(before) == assignments(later)

    # ---- how it ends

    def teardown(self) -> None:
        """From now on everybody behaves: then the group comes to rest, and stays there."""
        calm_s = 0
        for second in range(200):
            self.time_passes(1_000)
            self.all_behave()
            self.becomes_safe(1_000)
            calm_s = calm_s + 1 if self.group.state in {GroupState.STABLE, GroupState.EMPTY} else 0
            assert calm_s or second < 100, f"still {self.group.state}"
        if calm_s:
            event(f"ends {self.group.state}")

    def all_behave(self, leader_assigns: bool = True) -> None:
        """Every member does what a client would, three times over: it lives, joins and syncs."""
        for _ in range(3):
            for member in list(self.group._group.roster):
                self.behaves(member, leader_assigns)

    def behaves(self, member: Member, leader_assigns: bool) -> None:
        inside, member_id = self.group._group, member.member_id
        if member_id in inside.joins or member_id in inside.syncs:
            return
        identity = Identity(member_id=member_id, generation=self.group.generation)
        code = self.group.heartbeat(identity, self.now_ms)
        if code is Code.REBALANCE_IN_PROGRESS:
            self.send_join(
                member_id,
                group_instance_id=member.group_instance_id,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=tuple(member.protocols.items()),
            )
            return
        needs_it = member_id in inside.unsynced or not self.group.to_stored().is_assigned
        may_sync = leader_assigns or member_id != inside.leader
        if code is Code.NONE and needs_it and may_sync:
            self.send_sync(member_id, self.group.generation)


def leads(stored: StoredGroup) -> str | None:
    """The leader: by its instance, if it has one, as it may come back under another id."""
    return next(
        (
            member.group_instance_id or member.member_id
            for member in stored.members
            if member.member_id == stored.leader
        ),
        None,
    )


def assignments(stored: StoredGroup) -> list[bytes]:
    return sorted(member.assignment for member in stored.members)


def test_members_and_coordinators_that_come_and_go() -> None:
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=200,
            stateful_step_count=50,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
