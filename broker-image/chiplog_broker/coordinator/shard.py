"""One partition of `__consumer_offsets`, while this broker leads it in one leader epoch."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

from chiplog_broker.coordinator.errors import GroupError, group_code
from chiplog_broker.coordinator.group_log import GroupLog
from chiplog_broker.coordinator.group_memory import GroupMemory
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.coordinator.led_shard import LedShard
from chiplog_broker.coordinator.resetting import NewReset, records_of_reset
from chiplog_broker.groups.batches import (
    commit_records,
    group_record,
    retention_record,
    tombstones,
)
from chiplog_broker.groups.forgetting import expired_keys, keys_of_group, keys_of_topic
from chiplog_broker.groups.keys import Key, OffsetCommitKey
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.reset_value import DoneReset
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.verification import Verification
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.answers import Answer, Effect, Joined, Left, Store, Synced
from chiplog_core.groups.codes import Code
from chiplog_core.groups.description import Description
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.membership import Membership
from chiplog_core.groups.requests import UNKNOWN_MEMBER, Identity, Join, Leaving, Sync
from chiplog_core.groups.stored import StoredGroup, empty_group
from chiplog_core.limits import MAX_GROUP_ID_LENGTH
from chiplog_core.model.group_status import GroupState
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NOT_IDEMPOTENT, Producer

logger = logging.getLogger(__name__)

OK = ErrorCode.none

A = TypeVar("A", Joined, Synced, Left)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """The services and values that all shards of a broker share."""

    limits: Callable[[], Limits]
    new_member_id: Callable[[str], str]
    now_ms: Callable[[], int]
    """The wall clock, for stored timestamps, which other brokers read. It may jump."""
    ticks_ms: Callable[[], int]
    """Monotonic milliseconds, for session timeouts and all other waiting."""
    to_wall_ms: Callable[[int], int]
    """Converts a time of `ticks_ms` into one of `now_ms`."""
    memory: GroupMemory
    """Limits the memory of groups, members and offsets."""


class Shard(LedShard):
    """The groups of one partition of `__consumer_offsets`, coordinated in one leader epoch. Runs on
    the event loop's thread only.

    A `respond` callback gets an answer once the records behind it are safe: below the high
    watermark, so that every later coordinator has them. Errors may be given earlier.
    """

    def __init__(self, partition: Partition, context: ShardContext) -> None:
        super().__init__(partition)
        self._context = context
        self._log = GroupLog(partition, context.now_ms, context.ticks_ms)
        self._members: dict[str, Membership] = {}
        """Groups that have members, or had some a moment ago."""
        self._sizes: dict[str, int] = {}
        """Bytes of memory that the members of each group use."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """Group -> the timer for its next deadline, like the end of a member's session."""
        self._waiting: dict[object, Callable[[Joined | Synced | Left], None]] = {}
        """Token of a request -> the callback for its answer."""

    # -- start and end

    async def load(self) -> None:
        """Read the partition. Afterwards the shard answers, with errors if there is a `failure`."""
        name, began_ms = str(self.partition.name), self._context.ticks_ms()
        try:
            await self._log.load()
        except PartitionError:
            return  # another broker leads the partition now, or the disk failed
        except Exception as failed:
            # After any error: groups that are not completely loaded must not be coordinated.
            self.failure = str(failed)
            logger.exception("groups_not_loaded", extra={"partition": name})
            return
        self._start_sessions()
        if groups := len(self._log.state.group_ids()):
            took_ms = self._context.ticks_ms() - began_ms
            extra = {"partition": name, "groups": groups, "took_ms": took_ms}
            logger.info("groups_loaded", extra=extra)

    def _start_sessions(self) -> None:
        """Serve from now on. The session timeouts of all stored members begin."""
        self.is_loaded = True
        for group_id in self._log.state.group_ids():
            stored = self._log.state.group(group_id)
            if stored is not None and stored.members:
                self._update_timer(group_id, self._membership(group_id))

    def give_up(self) -> None:
        """Stop coordinating: waiting clients get an error that makes them look for the new
        coordinator."""
        self._is_over = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for membership in self._members.values():
            self._answer_all(membership.abandon(Code.NOT_COORDINATOR))
        self._members.clear()
        for group_id in list(self._sizes):
            self._update_memory(group_id)

    def check(self) -> None:
        """Raises `GroupError` unless this broker coordinates these groups now."""
        code, reason = self.refusal()
        if code is not OK:
            raise GroupError(code, reason)

    # -- members

    def join(self, group_id: str, request: Join, respond: Callable[[Joined], None]) -> None:
        """JoinGroup. Calls `respond` when the rebalance has completed, or with an error."""
        if request.member_id == UNKNOWN_MEMBER:
            code = self._refuse_new_group(group_id)
            if code is OK and not self._context.memory.has_memory_for_members():
                code = ErrorCode.coordinator_not_available
            if code is not OK:
                respond(Joined(code=group_code(code)))
                return
        membership, token = self._membership(group_id), self._register(respond)
        self._carry_out(group_id, membership.join(token, request, self._context.ticks_ms()))

    def sync(self, group_id: str, request: Sync, respond: Callable[[Synced], None]) -> None:
        """SyncGroup. Calls `respond` with the member's assignment, or with an error."""
        membership, token = self._membership(group_id), self._register(respond)
        self._carry_out(group_id, membership.sync(token, request, self._context.ticks_ms()))

    def leave(
        self, group_id: str, leaving: Sequence[Leaving], respond: Callable[[Left], None]
    ) -> None:
        """LeaveGroup. Calls `respond` with a result for each of these members."""
        membership, token = self._membership(group_id), self._register(respond)
        self._carry_out(group_id, membership.leave(token, leaving, self._context.ticks_ms()))

    def heartbeat(self, group_id: str, identity: Identity, respond: OnSafe) -> None:
        """Extend a member's session. Calls `respond` with the code of the Heartbeat response."""
        membership = self._membership(group_id)
        code = ErrorCode(membership.heartbeat(identity, self._context.ticks_ms()))
        self._update_timer(group_id, membership)
        self._log.answer(respond, group_id, code)

    # -- offsets

    def commit(
        self,
        group_id: str,
        identity: Identity,
        commits: Mapping[TopicPartition, CommittedOffset],
        respond: OnSafe,
        producer: Producer = NOT_IDEMPOTENT,
        verification: Verification | None = None,
    ) -> None:
        """Calls `respond` with `none` if all offsets are stored, or with an error. If the offsets
        do not fit into one batch, some may be stored although there is an error.

        With a `producer` the offsets are part of its transaction (TxnOffsetCommit): they count when
        `append_marker` commits it. Nothing else runs between the checks and the append: a
        transaction that ends in between would leave its offsets to the next one (kafka#14774). The
        first offsets of a transaction here need a `verification`.
        """
        is_transactional = producer is not NOT_IDEMPOTENT
        if identity.generation >= 0 and not self.exists(group_id):
            # A member of a group that was deleted must not create the group again.
            self._log.answer(respond, group_id, ErrorCode.illegal_generation)
            return
        code = self._refuse_new_group(group_id)
        # Offsets of a transaction take memory beside those that are committed.
        known = {} if is_transactional else self._log.state.offsets(group_id)
        added = sum(partition not in known for partition in commits)
        if code is OK and added and not self._context.memory.has_memory_for_offsets(added):
            code = ErrorCode.coordinator_not_available
        if code is not OK:
            self._log.answer(respond, group_id, code)
            return
        membership = self._membership(group_id)
        code = ErrorCode(
            membership.check_transactional_commit(identity)
            if is_transactional
            else membership.check_commit(identity, self._context.ticks_ms())
        )
        self._update_timer(group_id, membership)
        if code is OK:
            now_ms = self._context.now_ms()
            self._log.append_for(
                respond,
                group_id,
                lambda: commit_records(group_id, commits, now_ms),
                producer,
                verification,
            )
        else:
            self._log.answer(respond, group_id, code)

    def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets of a group, also those of earlier topics of the same name."""
        return self._log.state.offsets(group_id)

    def pending_offsets(self, group_id: str) -> list[tuple[TopicPartition, CommittedOffset]]:
        """The offsets that open transactions would commit for a group."""
        return list(self._log.state.pending(group_id))

    async def until_safe(self, group_id: str) -> None:
        """Wait until all present records of a group are below the high watermark, so that its
        present state may be reported to clients. Raises `GroupError` if that fails.

        Read the state before this call: afterwards it may contain newer records.
        """
        await self._wait_until(partial(self._log.safety.call_when_safe, group_id))

    async def until_current(self, group_id: str) -> None:
        """Wait until all present records of a group are below the high watermark, and until it is
        certain that no other coordinator had accepted newer commits at the time of this call.

        A deposed coordinator may learn late that it was replaced, and would report old offsets.
        Raises `GroupError` if either fails.
        """
        await self._wait_until(lambda respond: self._log.when_current(respond, group_id))

    async def until_all_safe(self) -> None:
        """Wait until all present records of all groups are below the high watermark, so that their
        state may be reported. Raises `GroupError` if that fails."""
        await self._wait_until(self._log.safety.call_when_all_safe)

    async def _wait_until(self, start: Callable[[OnSafe], None]) -> None:
        """Call `start` with a callback and wait for its code. Raises `GroupError` with an error."""
        code = await outcome(start)
        if code is not OK:
            raise GroupError(code)

    def forget_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], respond: OnSafe
    ) -> None:
        """OffsetDelete. The group stays, as in Kafka, even without offsets, because tools delete
        offsets before the group. It expires like every empty group."""
        keys = [OffsetCommitKey(group_id, partition) for partition in partitions]
        state, now_ms = self._log.state, self._context.now_ms()
        deletes_all = state.offsets(group_id).keys() <= {key.partition for key in keys}
        group_records = []
        if keys and deletes_all and state.group(group_id) is None:
            # A group that never had members exists only by its offsets: store it without them.
            group_records = [group_record(group_id, empty_group(now_ms), now_ms)]
        self._log.append_for(respond, group_id, lambda: [*group_records, *tombstones(keys, now_ms)])

    def append_marker(self, marker: Marker, respond: OnSafe) -> None:
        """End a producer's transaction: with a commit, the offsets in it count from now on."""
        self._log.append_marker(marker, respond)

    # -- resets

    def done_reset(self, group_id: str, reset_id: str) -> DoneReset | None:
        """The result of the reset with this id; None if it was not carried out since the group
        exists."""
        return self._log.state.resets(group_id).get(reset_id)

    def reset(self, group_id: str, reset: NewReset, respond: OnSafe) -> None:
        """Remove all members, commit the new offsets, and store the id of the reset, all in one
        batch. Calls `respond` with `none` if that was stored, or with an error if nothing was.

        Members that join afterwards start at the new offsets. The id must not be that of a
        `done_reset`.
        """
        membership, now_ms = self._membership(group_id), self._context.now_ms()
        effects = membership.fence(f"reset {reset.id}", self._context.ticks_ms())
        fenced = [change.group for change in effects if isinstance(change, Store)]
        code = self._log.append(
            group_id,
            lambda: records_of_reset(self._log.state, group_id, reset, fenced, now_ms),
            whole=True,
        )
        if code is OK:
            for effect in effects:
                if isinstance(effect, Answer):
                    self._answer(group_id, effect, OK)
            self._log.safety.call_when_safe(group_id, respond)
        else:
            # No member was removed: the stored group continues, and waiting clients join again.
            del self._members[group_id]
            self._answer_all([*effects, *membership.abandon(group_code(code))])
            membership = self._membership(group_id)
            respond(code)
        self._update_timer(group_id, membership)

    # -- how long offsets are kept

    def retention_ms(self, group_id: str) -> int | None:
        """How long the group's offsets are kept in milliseconds, -1 for ever; None if the group has
        the default. The record that sets it may not be below the high watermark yet."""
        return self._log.state.retention_ms(group_id)

    def retained(self) -> Iterable[str]:
        """The ids of groups with an offset retention of their own. It may be set before a group
        exists, so these ids include groups that do not exist."""
        return self._log.state.retained()

    def set_retention(self, group_id: str, retention_ms: int | None, respond: OnSafe) -> None:
        """Set how long the group's offsets are kept after its last member has left: -1 for ever,
        None for the default."""
        if self.retention_ms(group_id) == retention_ms:
            self._log.answer(respond, group_id, OK)
            return
        now_ms = self._context.now_ms()
        self._log.append_for(
            respond, group_id, lambda: [retention_record(group_id, retention_ms, now_ms)]
        )

    # -- groups as a whole

    @property
    def group_count(self) -> int:
        """The approximate number of groups."""
        return max(self._log.state.group_count, len(self._members))

    @property
    def offset_count(self) -> int:
        """The number of offsets: committed ones, and those in open transactions."""
        return self._log.state.offset_count

    def _refuse_new_group(self, group_id: str) -> ErrorCode:
        """The error for a group that would be new and may not be created; `none` if it exists, or
        may be created."""
        if self.exists(group_id):
            return OK
        if len(group_id) > MAX_GROUP_ID_LENGTH:
            return ErrorCode.invalid_group_id
        if not self._context.memory.has_memory_for_groups():
            return ErrorCode.coordinator_not_available
        return OK

    def exists(self, group_id: str) -> bool:
        return group_id in self._members or group_id in self._log.state

    def __iter__(self) -> Iterator[str]:
        """The ids of all groups."""
        return iter(sorted(self._log.state.group_ids() | self._members.keys()))

    def describe(self, group_id: str) -> Description:
        """The state and the members of a group that `exists`."""
        membership = self._membership(group_id)
        description = membership.describe()
        self._update_timer(group_id, membership)
        return description

    def delete(self, group_id: str, respond: OnSafe) -> None:
        """DeleteGroups: delete all records of a group without members."""
        if not self.exists(group_id):
            self._log.answer(respond, group_id, ErrorCode.group_id_not_found)
            return
        if self.describe(group_id).state is not GroupState.EMPTY:
            self._log.answer(respond, group_id, ErrorCode.non_empty_group)
            return
        keys = keys_of_group(self._log.state, group_id)
        code = self._log.append_for(
            respond, group_id, lambda: tombstones(keys, self._context.now_ms())
        )
        if code is OK and (timer := self._timers.pop(group_id, None)):
            # Clients may have got member ids with which they have not joined yet: these end, too.
            timer.cancel()
            del self._members[group_id]
            self._update_memory(group_id)

    def expire(self, now_ms: int, retention_ms: int) -> None:
        """Delete the offsets and groups that have expired at `now_ms`. `retention_ms` is the
        retention of groups that have none of their own."""
        for group_id in self:
            membership = self._members.get(group_id)
            is_rebalancing = membership is not None and membership.state not in {
                GroupState.EMPTY,
                GroupState.STABLE,
            }
            keys = expired_keys(
                self._log.state,
                group_id,
                is_rebalancing=is_rebalancing,
                now_ms=now_ms,
                retention_ms=retention_ms,
            )
            if keys and self._append_tombstones(group_id, keys) is OK:
                extra = {"group": group_id, "partition": str(self.partition.name)}
                logger.info("offsets_expired", extra={**extra, "records": len(keys)})

    def forget_topic(self, topic_id: UUID) -> None:
        """Delete offsets that were committed for a topic that was deleted."""
        for group_id, keys in keys_of_topic(self._log.state, topic_id).items():
            self._append_tombstones(group_id, keys)

    # -- carrying out effects

    def _membership(self, group_id: str) -> Membership:
        """The members of a group: those in memory, or else the stored ones, or else none. They are
        in memory afterwards, so call `_update_timer`, which may drop them again."""
        membership = self._members.get(group_id)
        if membership is None:
            context, stored = self._context, self._log.state.group(group_id)
            services = context.limits(), context.new_member_id, context.to_wall_ms
            if stored is None:
                membership = Membership(group_id, *services)
            else:
                ticks_ms = context.ticks_ms()
                membership = Membership.from_stored(group_id, stored, *services, ticks_ms)
            self._members[group_id] = membership
        return membership

    def _register(self, respond: Callable[[A], None]) -> object:
        """Keep the callback of a request; returns the token by which `Answer`s name the request."""
        token = object()
        self._waiting[token] = respond  # type: ignore[assignment] # its answers are of this type
        return token

    def _carry_out(self, group_id: str, effects: Sequence[Effect]) -> None:
        """Carry out what a change of the membership requires: store the group, answer requests.

        If the group cannot be stored, all requests get that error, and the change is undone.
        """
        membership = self._members[group_id]
        code = OK
        for effect in effects:
            if isinstance(effect, Store) and code is OK:
                code = self._store(group_id, effect.group)
                if code is not OK:
                    # Its last change was not stored, so it starts again from the stored group.
                    del self._members[group_id]
                    self._answer_all(membership.abandon(group_code(code)))
                    membership = self._membership(group_id)
            elif isinstance(effect, Answer):
                self._answer(group_id, effect, code)
        self._update_timer(group_id, membership)

    def _answer(self, group_id: str, effect: Answer, refused: ErrorCode) -> None:
        """Answer a request once the high watermark has passed the group's records; at once with the
        error `refused`, if the group could not be stored."""
        respond, answer = self._waiting.pop(effect.token), effect.answer

        def then(code: ErrorCode) -> None:
            respond(answer if code is OK else type(answer)(code=group_code(code)))

        if refused is OK:
            self._log.safety.call_when_safe(group_id, then)
        else:
            then(refused)

    def _answer_all(self, effects: Sequence[Effect]) -> None:
        """Give the answers among these effects now: they are errors, which need not wait for the
        high watermark."""
        for effect in effects:
            if isinstance(effect, Answer):
                self._waiting.pop(effect.token)(effect.answer)

    def _update_timer(self, group_id: str, membership: Membership) -> None:
        """Set the timer of a group to its next deadline. An empty group without a deadline is
        dropped from memory."""
        if timer := self._timers.pop(group_id, None):
            timer.cancel()
        due_ms = membership.next_deadline_ms
        if due_ms is not None:
            delay_s = max(due_ms - self._context.ticks_ms(), 0) / 1000
            loop = asyncio.get_running_loop()
            self._timers[group_id] = loop.call_later(delay_s, self._advance, group_id)
        elif membership.state is GroupState.EMPTY:
            self._members.pop(group_id, None)
        self._update_memory(group_id)

    def _update_memory(self, group_id: str) -> None:
        """Account for the memory that the members of a group use now."""
        membership = self._members.get(group_id)
        size_bytes = 0 if membership is None else membership.size_bytes
        self._context.memory.members_changed(size_bytes - self._sizes.pop(group_id, 0))
        if size_bytes:
            self._sizes[group_id] = size_bytes

    def _advance(self, group_id: str) -> None:
        """A deadline of the group has come, like the end of a member's session."""
        del self._timers[group_id]
        membership = self._members[group_id]
        self._carry_out(group_id, membership.advance(self._context.ticks_ms()))

    def _store(self, group_id: str, stored: StoredGroup) -> ErrorCode:
        """Append the group's generation and members; returns `none` or an error."""
        now_ms = self._context.now_ms()
        return self._log.append(group_id, lambda: [group_record(group_id, stored, now_ms)])

    def _append_tombstones(self, group_id: str, keys: Sequence[Key]) -> ErrorCode:
        """Append the tombstones that delete these keys; returns `none` or an error."""
        return self._log.append(group_id, lambda: tombstones(keys, self._context.now_ms()))
