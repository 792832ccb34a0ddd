"""A group and the two phases of its rebalances: all members join, then all members sync.

The modules `joining`, `syncing`, `departing` and `membership` decide what a request, a departure or
a deadline means for the group. This module decides what follows for its other members. Invariants:

* a JoinGroup that waits for its answer is in `joins`, and only in state PreparingRebalance; a
  SyncGroup that waits is in `syncs`, and only in state CompletingRebalance;
* the session of a member whose request waits cannot end, except for a new member: this one must not
  wait for ever;
* a generation is stored as a whole. In state PreparingRebalance nothing is stored; another
  coordinator would then load the generation before, with the members that it had.
"""

from collections.abc import Callable

from chiplog_core.groups.answers import (
    Answer,
    Effect,
    Joined,
    JoinedMember,
    Left,
    Store,
    Synced,
    Token,
)
from chiplog_core.groups.codes import Code
from chiplog_core.groups.deadlines import Deadlines
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.member import Member
from chiplog_core.groups.roster import Roster
from chiplog_core.groups.states import GroupEvent, after
from chiplog_core.groups.stored import NO_TIMESTAMP_MS, StoredGroup
from chiplog_core.ids import MAX_INT32
from chiplog_core.model.group_status import GroupState


class Group:
    """The state of one group. Times are milliseconds of a monotonic clock, unless their
    description says otherwise; `to_wall_ms` converts them to milliseconds since 1970."""

    def __init__(self, limits: Limits, to_wall_ms: Callable[[int], int]) -> None:
        """A new group without members, in state Empty."""
        self.limits = limits
        self._to_wall_ms = to_wall_ms
        self.state = GroupState.EMPTY
        self.why = ""
        """The reason of the last change of state, for logs."""
        self.since_ms = NO_TIMESTAMP_MS
        """When the state last changed, in milliseconds since 1970."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.roster = Roster()
        self.pending: set[str] = set()
        """Member ids that were given out and with which no client has joined yet (KIP-394)."""
        self.joins: dict[str, Token] = {}
        """Member id -> the JoinGroup of this member that waits for its answer."""
        self.syncs: dict[str, Token] = {}
        """Member id -> the SyncGroup of this member that waits for its answer."""
        self.unsynced: set[str] = set()
        """The members that joined this generation and have not sent a SyncGroup yet."""
        self.sessions = Deadlines()
        """When the sessions of members and of ids in `pending` end."""
        self.join_due_ms: int | None = None
        """When the join phase ends; None outside of it."""
        self.sync_due_ms: int | None = None
        """When members must have sent their SyncGroup; None if all have."""
        self.initial_until_ms: int | None = None
        """The latest end of the initial delay, in which a new group waits for more members
        (KIP-134); None in any other rebalance."""
        self.has_newcomers = False
        """Whether a member joined since the initial delay began or was extended."""
        self._effects: list[Effect] = []
        self._stored = self._as_stored()

    # ---- effects

    def answer(self, token: Token, answer: Joined | Synced | Left) -> None:
        """Answer a request."""
        self._effects.append(Answer(token, answer))

    def store(self) -> None:
        """Have this generation stored. Answers that follow are sent only after that."""
        self._stored = self._as_stored()
        self._effects.append(Store(self._stored))

    def drain(self) -> tuple[Effect, ...]:
        """The effects since the last call: answers to send and generations to store."""
        effects, self._effects = tuple(self._effects), []
        return effects

    @property
    def stored(self) -> StoredGroup:
        """The generation that another coordinator would load if it took over now."""
        # In these states the roster has changes that are not stored.
        if self.state in {GroupState.PREPARING_REBALANCE, GroupState.DEAD}:
            return self._stored
        return self._as_stored()

    def load(self, stored: StoredGroup) -> None:
        """Take over a stored generation. The group must be new."""
        self.protocol_type, self.protocol = stored.protocol_type, stored.protocol
        self.generation, self.leader = stored.generation, stored.leader
        self.since_ms = stored.current_state_timestamp_ms
        for member in stored.members:
            self.roster.add(Member.loaded(member, stored.protocol or ""))
        if stored.members:
            is_assigned = stored.is_assigned
            self.state = GroupState.STABLE if is_assigned else GroupState.COMPLETING_REBALANCE
        self._stored = stored

    def _as_stored(self) -> StoredGroup:
        """The present generation in the form in which it is stored."""
        return StoredGroup(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp_ms=self.since_ms,
            members=tuple(member.stored(self.protocol or "") for member in self.roster),
        )

    # ---- waiting and sessions

    def wait_to_join(self, member: Member, token: Token) -> None:
        """Let a member wait for the end of the join phase. A JoinGroup that it sent before is
        answered."""
        before = self.joins.get(member.member_id)
        if before is not None:
            self.answer(before, Joined(code=Code.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        self.joins[member.member_id] = token
        # The session of a new member still limits how long it may wait.
        if not member.is_new:
            self.sessions.clear(member.member_id)

    def wait_to_sync(self, member: Member, token: Token) -> None:
        """Let a member wait for its assignment. A SyncGroup that it sent before is answered."""
        before = self.syncs.get(member.member_id)
        if before is not None:
            self.answer(before, Synced(code=Code.REBALANCE_IN_PROGRESS))
        self.syncs[member.member_id] = token
        self.sessions.clear(member.member_id)

    def renew(self, member: Member, now_ms: int) -> None:
        """Restart the session of a member that sent a request. While it waits for an answer
        it has none, or, if it is new, the one that limits its wait."""
        if member.member_id not in self.joins and member.member_id not in self.syncs:
            self.sessions.set(member.member_id, now_ms + member.session_timeout_ms)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. A request that waits is answered with
        UNKNOWN_MEMBER_ID, so that the client may join again."""
        self.pending.discard(member_id)
        self.sessions.clear(member_id)
        if member_id in self.roster:
            self.roster.remove(member_id)
            self.release(member_id, Code.UNKNOWN_MEMBER_ID, answer_id="")

    def release(self, member_id: str, code: Code, answer_id: str) -> None:
        """Answer a member's waiting requests with an error, and do not wait for its SyncGroup.

        `answer_id` is the member id in the answer.
        """
        self.unsynced.discard(member_id)
        if member_id in self.joins:
            self.answer(self.joins.pop(member_id), Joined(code=code, member_id=answer_id))
        if member_id in self.syncs:
            self.answer(self.syncs.pop(member_id), Synced(code=code))

    # ---- phases

    def change(self, event: GroupEvent, why: str, now_ms: int) -> None:
        """Change the state as the table of transitions says. `why` is the reason, for logs."""
        state = after(self.state, event)
        if state is not self.state:
            self.state, self.why, self.since_ms = state, why, self._to_wall_ms(now_ms)

    def rebalance(self, event: GroupEvent, why: str, now_ms: int) -> None:
        """Begin a rebalance because a member joined, left or changed, or continue with the one
        in progress. `why` is the reason, for logs."""
        before = self.state
        self.change(event, why, now_ms)
        if before is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(now_ms)
            return
        # The sync phase of the previous generation ends without an assignment.
        syncs, self.syncs = self.syncs, {}
        for member_id, token in syncs.items():
            self.answer(token, Synced(code=Code.REBALANCE_IN_PROGRESS))
            self.renew(self.roster[member_id], now_ms)
        self.unsynced.clear()
        self.sync_due_ms = None
        if before is GroupState.EMPTY:
            # The initial delay (KIP-134), which `join_time_is_over` may extend up to
            # `initial_until_ms`.
            delay_ms = self.limits.initial_rebalance_delay_ms
            self.has_newcomers = False
            self.join_due_ms = now_ms + delay_ms
            self.initial_until_ms = now_ms + max(delay_ms, self.roster.rebalance_timeout_ms)
        else:
            self.join_due_ms = now_ms + self.roster.rebalance_timeout_ms
            self.complete_if_all_joined(now_ms)

    def complete_if_all_joined(self, now_ms: int) -> None:
        """End the join phase if all members have joined. In the initial delay it lasts its full
        time, for members that may still join.

        Ids that were given out (pending) are waited for only if a member has joined: a group
        without members becomes empty immediately.
        """
        is_preparing = self.state is GroupState.PREPARING_REBALANCE
        if not is_preparing or self.initial_until_ms is not None:
            return
        have_all_joined = len(self.joins) == len(self.roster)
        waits_for_pending = bool(self.pending and self.joins)
        if have_all_joined and not waits_for_pending:
            self._complete(now_ms)

    def join_time_is_over(self, now_ms: int) -> None:
        """End the join phase with the members that joined; other members are removed, except for
        static ones. The initial delay is extended if new members joined during it."""
        until_ms = self.initial_until_ms
        if until_ms is not None and self.has_newcomers and now_ms < until_ms:
            self.has_newcomers = False
            delay_ms = self.limits.initial_rebalance_delay_ms
            self.join_due_ms = min(now_ms + delay_ms, until_ms)
            return
        self.initial_until_ms = None
        missing = [member for member in self.roster if member.member_id not in self.joins]
        for member in missing:
            if not member.is_static:
                self.remove(member.member_id)
        if self.roster and not self.joins:
            # There are only static members, and none has joined: wait until one does or until their
            # sessions end.
            self.join_due_ms = now_ms + self.roster.rebalance_timeout_ms
            return
        self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """End the join phase. The new generation has the members that joined, and the static
        members that did not."""
        self.join_due_ms = None
        self.generation = self.generation + 1 if self.generation < MAX_INT32 else 1
        if not self.roster:
            self.protocol = self.leader = None
            self.change(GroupEvent.NOBODY_LEFT, "nobody is left", now_ms)
            self.store()
            return
        if self.leader not in self.joins:
            self.leader = next(iter(self.joins))
        self.protocol = self.roster.choose_protocol()
        for member in self.roster:
            member.assignment = b""
        self.change(GroupEvent.ALL_JOINED, f"{len(self.joins)} members have joined", now_ms)
        self.store()
        # No SyncGroup is expected from static members that did not join. Such a member is removed
        # when its session ends.
        self.unsynced = set(self.joins)
        self.sync_due_ms = now_ms + self.roster.rebalance_timeout_ms
        joins, self.joins = self.joins, {}
        for member_id, token in joins.items():
            member = self.roster[member_id]
            member.is_new = False
            self.answer(token, self.joined(member))
            self.renew(member, now_ms)

    def joined(self, member: Member) -> Joined:
        """The answer to a member that joins this generation. The leader's has all members."""
        is_leader = member.member_id == self.leader
        return Joined(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or "",
            members=self._all_joined() if is_leader else (),
        )

    def _all_joined(self) -> tuple[JoinedMember, ...]:
        """All members with their metadata, for the leader's answer."""
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.protocols[self.protocol or ""],
            )
            for member in self.roster
        )
