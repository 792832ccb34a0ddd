"""One consumer group at its coordinator: requests and times in, answers and records out.

The caller carries out the effects of each call in order. It appends the generation of a `Store`,
and delays all later answers of this group, including the codes of heartbeats and commits, until the
appended record is below the high watermark. So the group can continue immediately, and no client
sees a state that another coordinator would not find. If an append fails, the state in memory is
wrong: the caller must `abandon` it and create another one from the last stored generation.

Times are milliseconds of a monotonic clock, because deadlines must not depend on the wall clock,
which may be set. Stored times are read by other brokers, so they are of the wall clock:
`to_wall_ms` converts. Sessions and phases end only in `advance`, which the caller must call when
`next_deadline_ms` has come.
"""

from collections.abc import Callable, Sequence
from typing import Self

from chiplog_core.groups.answers import Effect, Token
from chiplog_core.groups.codes import Code
from chiplog_core.groups.departing import fence, leave, lose, remove_unsynced
from chiplog_core.groups.description import Description, describe
from chiplog_core.groups.group import Group
from chiplog_core.groups.joining import join
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.member import Member
from chiplog_core.groups.requests import Identity, Join, Leaving, Sync
from chiplog_core.groups.states import GroupEvent
from chiplog_core.groups.stored import NO_TIMESTAMP_MS, StoredGroup
from chiplog_core.groups.syncing import sync
from chiplog_core.model.group_status import GroupState

_BYTES_PER_ID = 500
"""Approximate memory of an id that was given out, and of the group without its members."""


class Membership:
    """The members of one group (KIP-62, 134, 345, 389, 394, 559, 814)."""

    def __init__(
        self,
        group_id: str,
        limits: Limits,
        new_member_id: Callable[[str], str],
        to_wall_ms: Callable[[int], int],
    ) -> None:
        """`new_member_id` creates a unique member id from a client id or an instance id.
        `to_wall_ms` converts a time of the monotonic clock to milliseconds since 1970."""
        self.group_id = group_id
        self._new_member_id = new_member_id
        self._group = Group(limits, to_wall_ms)

    @classmethod
    def from_stored(
        cls,
        group_id: str,
        stored: StoredGroup,
        limits: Limits,
        new_member_id: Callable[[str], str],
        to_wall_ms: Callable[[int], int],
        now_ms: int,
    ) -> Self:
        """The group from the last generation that another coordinator has stored.

        All sessions begin again. If the generation has no assignment, its sync phase begins again
        and waits for the leader's SyncGroup, because its members may have got their JoinGroup
        answers. Members that did not get one join again and get the same answer. Static members,
        except for the leader, need not sync in time, because they may not have joined it.
        """
        self = cls(group_id, limits, new_member_id, to_wall_ms)
        group = self._group
        group.load(stored)
        for member in group.roster:
            group.renew(member, now_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            group.sync_due_ms = now_ms + group.roster.rebalance_timeout_ms
            group.unsynced.update(
                member.member_id
                for member in group.roster
                if not member.is_static or member.member_id == group.leader
            )
        if len(group.roster) > limits.max_size:
            why = f"{len(group.roster)} members, of at most {limits.max_size}"
            group.rebalance(GroupEvent.OVERFULL, why, now_ms)
        return self

    @property
    def state(self) -> GroupState:
        """The state of the group. After `abandon` it is Dead, and no method may be called."""
        return self._group.state

    @property
    def generation(self) -> int:
        """The number of the generation; 0 before the first one."""
        return self._group.generation

    @property
    def why(self) -> str:
        """The reason of the last change of state, for logs."""
        return self._group.why

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the members and of the ids that were given out."""
        group = self._group
        return group.roster.size_bytes + _BYTES_PER_ID * (1 + len(group.pending))

    @property
    def next_deadline_ms(self) -> int | None:
        """When `advance` must be called next; None while nothing is due."""
        group = self._group
        due = (group.join_due_ms, group.sync_due_ms, group.sessions.next_ms)
        return min((deadline_ms for deadline_ms in due if deadline_ms is not None), default=None)

    def to_stored(self) -> StoredGroup:
        """The generation of the last `Store`, or the one that `from_stored` was given."""
        return self._group.stored

    def describe(self) -> Description:
        """The group as DescribeGroups and ListGroups show it."""
        return describe(self._group)

    def join(self, token: Token, request: Join, now_ms: int) -> tuple[Effect, ...]:
        """Handle a JoinGroup. It is answered with `Joined`, now or later."""
        join(self._not_abandoned, token, request, self._new_member_id, now_ms)
        return self._group.drain()

    def sync(self, token: Token, request: Sync, now_ms: int) -> tuple[Effect, ...]:
        """Handle a SyncGroup. It is answered with `Synced`, now or later."""
        sync(self._not_abandoned, token, request, now_ms)
        return self._group.drain()

    def leave(self, token: Token, leaving: Sequence[Leaving], now_ms: int) -> tuple[Effect, ...]:
        """Handle a LeaveGroup. It is answered with `Left` immediately."""
        leave(self._not_abandoned, token, leaving, now_ms)
        return self._group.drain()

    def fence(self, why: str, now_ms: int) -> tuple[Effect, ...]:
        """Remove all members at once. The group is Empty then.

        The change must be stored together with the change for which the members are fenced.
        """
        fence(self._not_abandoned, why, now_ms)
        return self._group.drain()

    def heartbeat(self, identity: Identity, now_ms: int) -> Code:
        """Renew a member's session. REBALANCE_IN_PROGRESS asks the member to join again."""
        member = self._member(identity)
        if isinstance(member, Code):
            return member
        self._group.renew(member, now_ms)
        is_preparing = self.state is GroupState.PREPARING_REBALANCE
        return Code.REBALANCE_IN_PROGRESS if is_preparing else Code.NONE

    def check_commit(self, identity: Identity, now_ms: int) -> Code:
        """NONE if this client may commit offsets now, else the error code. A member's commit counts
        as a heartbeat.

        Tools, and consumers that assign their partitions themselves, commit without a generation.
        They may do so while the group has no members. Members may commit in the join phase of a
        rebalance, but not in the sync phase, in which they do not have their new assignment yet.
        """
        is_empty = self._not_abandoned.state is GroupState.EMPTY
        if is_empty and identity.generation < 0:
            return Code.NONE
        member = self._member(identity)
        if isinstance(member, Code):
            return member
        if self.state is GroupState.COMPLETING_REBALANCE:
            return Code.REBALANCE_IN_PROGRESS
        self._group.renew(member, now_ms)
        return Code.NONE

    def check_transactional_commit(self, identity: Identity) -> Code:
        """NONE if this client may commit offsets in a transaction now, else the error code.

        As in Kafka, a client that sends neither member nor generation may always do so, because
        TxnOffsetCommit has had them only since version 3 (KIP-447): the transaction fences it. A
        member may commit in every phase of a rebalance, and does not renew its session by it.
        """
        is_anonymous = identity.generation < 0 and not identity.member_id
        if is_anonymous and identity.group_instance_id is None:
            return Code.NONE
        if identity.generation < 0 and self._not_abandoned.state is GroupState.EMPTY:
            return Code.NONE
        member = self._member(identity)
        return member if isinstance(member, Code) else Code.NONE

    def advance(self, now_ms: int) -> tuple[Effect, ...]:
        """End the sessions and phases whose time is over."""
        group = self._not_abandoned
        due_ms = self.next_deadline_ms
        while due_ms is not None and due_ms <= now_ms:
            if due_ms == group.join_due_ms:
                group.join_time_is_over(now_ms)
            elif due_ms == group.sync_due_ms:
                remove_unsynced(group, now_ms)
            else:
                lose(group, group.sessions.pop(), now_ms)
            due_ms = self.next_deadline_ms
        return group.drain()

    def abandon(self, code: Code) -> tuple[Effect, ...]:
        """Stop coordinating the group. Every waiting request is answered with `code`."""
        group = self._not_abandoned
        for member_id in [*group.joins, *group.syncs]:
            group.release(member_id, code, answer_id=member_id)
        group.change(GroupEvent.ABANDONED, f"abandoned with {code.name}", NO_TIMESTAMP_MS)
        return group.drain()

    @property
    def _not_abandoned(self) -> Group:
        """The group with all its members. Must not be called after `abandon`."""
        assert self._group.state is not GroupState.DEAD, f"group {self.group_id} was abandoned"
        return self._group

    def _member(self, identity: Identity) -> Member | Code:
        """The member with this identity, or an error code. It must be of the present generation."""
        member = self._not_abandoned.roster.find(identity.member_id, identity.group_instance_id)
        if not isinstance(member, Code) and identity.generation != self._group.generation:
            return Code.ILLEGAL_GENERATION
        return member
