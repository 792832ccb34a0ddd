"""Resets offsets of groups, as the operator requests it: each reset is planned, refused, or carried
out once.

There is no await between reading the committed offsets and members, planning, and appending the
batch, so all of this has one consistent state. Only the start and end offsets of partitions are
older: the operator requested them from the leaders just before.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.coordinator.resetting import NewReset
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.groups.reset_value import DoneReset, MovedOffset
from chiplog_broker.handlers.group_facts import refusal_of
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.at import At
from chiplog_core.groups.reset import Standing
from chiplog_core.groups.reset_plan import (
    ResetPlan,
    ResetRefused,
    check_inactive,
    check_same,
    counted,
    fingerprint,
    moment_ms,
    plan,
)
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.model.consumer_group import Reset, WhileActive
from chiplog_core.model.group_exchange import (
    GroupRefusal,
    PartitionPosition,
    ResetAnswer,
    ResetRequest,
)
from chiplog_core.model.group_status import ResetOffset, ResetState
from chiplog_core.topic_name import is_internal
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _PartitionToReset:
    """The topic id and the committed offset of a partition that is reset."""

    topic_id: UUID
    committed: int | None


class _OffsetsMissing(Exception):  # noqa: N818 - no error: it is asked again
    """The request lacks an offset that the plan needs: the operator sends it again with more
    offsets."""


class GroupResets:
    """Resets offsets through the coordinator; topics are those of the cluster view."""

    def __init__(self, coordinator: Coordinator, cluster: ClusterView) -> None:
        self._coordinator = coordinator
        self._cluster = cluster

    async def answer(self, request: ResetRequest) -> ResetAnswer:
        """An answer with a state is safe: another coordinator would give it, too."""
        try:
            shard = self._coordinator.shard(request.group_id)
            return await self._answer(shard, request)
        except GroupError as error:
            return _answer(request, refusal=refusal_of(error.code), message=str(error))
        except _OffsetsMissing as missing:
            return _answer(request, refusal=GroupRefusal.UNAVAILABLE, message=str(missing))

    async def _answer(self, shard: Shard, request: ResetRequest) -> ResetAnswer:
        group_id, reset = request.group_id, request.reset
        try:
            done = shard.done_reset(group_id, reset.id)
            if done is not None:
                check_same(reset, done.fingerprint)
                answer = _answer(request, ResetState.DONE, offsets=_moved_offsets(done))
            else:
                return await self._carry_out(shard, request)
        except ResetRefused as refused:
            answer = _answer(request, ResetState.REFUSED, message=str(refused))
        await shard.until_safe(group_id)
        return answer

    async def _carry_out(self, shard: Shard, request: ResetRequest) -> ResetAnswer:
        """Raises `ResetRefused`, `GroupError`, `_OffsetsMissing`."""
        group_id, reset = request.group_id, request.reset
        members = len(shard.describe(group_id).members) if shard.exists(group_id) else 0
        chosen = self._partitions_to_reset(shard, request)
        planned = plan(reset, _reset_positions(request, chosen, has_members=members > 0))
        if reset.dry_run:
            answer = _answer(
                request,
                ResetState.PLANNED,
                message=_with_members(planned.message, reset, members),
                offsets=planned.offsets,
            )
            await shard.until_safe(group_id)
            return answer
        check_inactive(reset, members)
        code = await outcome(
            partial(shard.reset, group_id, _new_reset(reset, planned, chosen, self._now_ms()))
        )
        if code is ErrorCode.invalid_commit_offset_size:
            raise ResetRefused(
                f"the offsets of {len(planned.offsets)} partitions do not fit into one batch of "
                "__consumer_offsets: reset fewer partitions at a time, each time with another id"
            )
        if code is not ErrorCode.none:
            raise GroupError(code)
        extra = {"group": group_id, "reset": reset.id, "partitions": len(planned.offsets)}
        logger.info("group_reset", extra={**extra, "fenced": members})
        return _answer(request, ResetState.DONE, message=planned.message, offsets=planned.offsets)

    def _now_ms(self) -> int:
        return self._coordinator.now_ms()

    def _partitions_to_reset(
        self, shard: Shard, request: ResetRequest
    ) -> dict[At, _PartitionToReset]:
        """The partitions to reset with their committed offsets. Raises `ResetRefused`."""
        offsets = shard.offsets(request.group_id)
        if not request.reset.topics:
            return {
                At(*at): _PartitionToReset(view.topic_id, commit.offset)
                for at, commit in offsets.items()
                if (view := self._cluster.topic(at.topic)) is not None
                and at.partition < len(view.partitions)
                and commit.is_for(view.topic_id)
            }
        chosen: dict[At, _PartitionToReset] = {}
        for topic in request.reset.topics:
            view = self._cluster.topic(topic.topic)
            if view is None:
                raise ResetRefused(f"there is no topic {topic.topic}: correct spec.reset.topics")
            if is_internal(topic.topic):
                raise ResetRefused(f"{topic.topic} is an internal topic: remove it")
            size = len(view.partitions)
            for index in topic.partitions or range(size):
                if index >= size:
                    raise ResetRefused(
                        f"{topic.topic} has {counted(size, 'partition')} and none with number "
                        f"{index}: correct spec.reset.topics"
                    )
                commit = offsets.get(TopicPartition(topic.topic, index))
                is_known = commit is not None and commit.is_for(view.topic_id)
                chosen[At(topic.topic, index)] = _PartitionToReset(
                    view.topic_id, commit.offset if commit is not None and is_known else None
                )
        return chosen


def _reset_positions(
    request: ResetRequest, chosen: Mapping[At, _PartitionToReset], *, has_members: bool
) -> dict[At, Standing]:
    """The offsets that each partition can be reset to. Raises `_OffsetsMissing`."""
    said = {
        At(topic.topic, position.partition): position
        for topic in request.positions
        for position in topic.partitions
    }
    by_time = moment_ms(request.reset, 0) is not None
    return {
        at: _reset_position(at, state, said.get(at), has_members=has_members, by_time=by_time)
        for at, state in chosen.items()
    }


def _reset_position(
    at: At,
    state: _PartitionToReset,
    said: PartitionPosition | None,
    *,
    has_members: bool,
    by_time: bool,
) -> Standing:
    earliest = None if said is None else said.log_start_offset
    latest = None if said is None else said.end_offset
    of_time = None if said is None else said.since_offset
    if earliest is None or latest is None or (by_time and of_time is None):
        why = f" ({said.refusal})" if said is not None and said.refusal else ""
        raise _OffsetsMissing(
            f"the leader of {at} has not reported its first and last offset yet{why}"
        )
    if has_members and state.committed is not None:
        # Members consumed further since the end offset was requested: that offset exists.
        latest = Offset(max(latest, state.committed))
    return Standing(
        earliest=earliest,
        latest=latest,
        committed=state.committed,
        of_time=of_time if of_time is not None and of_time < latest else None,
    )


def _new_reset(
    reset: Reset, planned: ResetPlan, chosen: Mapping[At, _PartitionToReset], now_ms: int
) -> NewReset:
    offsets = [
        MovedOffset(TopicPartition(moved.topic, moved.partition), moved.offset, moved.new_offset)
        for moved in planned.offsets
    ]
    return NewReset(
        id=reset.id,
        done=DoneReset(fingerprint=fingerprint(reset), done_ms=now_ms, offsets=tuple(offsets)),
        commits={
            at: CommittedOffset(
                offset=after,
                commit_timestamp_ms=now_ms,
                topic_id=chosen[At(*at)].topic_id,
            )
            for at, _, after in offsets
        },
    )


def _moved_offsets(done: DoneReset) -> tuple[ResetOffset, ...]:
    return tuple(
        ResetOffset(
            topic=at.topic,
            partition=PartitionIndex(at.partition),
            offset=before,
            new_offset=Offset(after),
        )
        for at, before, after in done.offsets
    )


def _with_members(message: str, reset: Reset, members: int) -> str:
    """The refusal of a plan, which also says that members prevent the reset."""
    if not members:
        return message
    group = f"the group has {counted(members, 'member')}"
    if reset.while_active is WhileActive.FENCE:
        said = f"{group}, which the reset would remove"
    else:
        said = f"{group}: while it has any, the reset would be refused"
    return f"{said}; {message}"[:MAX_MESSAGE_LENGTH] if message else said


def _answer(
    request: ResetRequest,
    state: ResetState | None = None,
    *,
    refusal: GroupRefusal | None = None,
    message: str = "",
    offsets: tuple[ResetOffset, ...] = (),
) -> ResetAnswer:
    return ResetAnswer(
        group_id=request.group_id,
        id=request.reset.id,
        refusal=refusal,
        state=state,
        message=message[:MAX_MESSAGE_LENGTH],
        offsets=offsets,
    )
