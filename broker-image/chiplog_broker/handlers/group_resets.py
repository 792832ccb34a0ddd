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
from chiplog_core.groups.reset import ResetOffsets
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
    """The request lacks an offset that the plan needs. The operator asks the leaders again, and
    repeats the request with more offsets."""


class GroupResets:
    """Resets offsets through the coordinator; the cluster view says which topics exist."""

    def __init__(self, coordinator: Coordinator, cluster: ClusterView) -> None:
        self._coordinator = coordinator
        self._cluster = cluster

    async def answer(self, request: ResetRequest) -> ResetAnswer:
        """Plan or carry out a reset.

        An answer with a state is given only once the high watermark has passed the group's records:
        every later coordinator would give the same one. An
        answer with a refusal makes the operator ask again.
        """
        try:
            shard = self._coordinator.shard(request.group_id)
            return await self._answer(shard, request)
        except GroupError as error:
            return _answer(request, refusal=refusal_of(error.code), message=str(error))
        except _OffsetsMissing as missing:
            return _answer(request, refusal=GroupRefusal.UNAVAILABLE, message=str(missing))

    async def _answer(self, shard: Shard, request: ResetRequest) -> ResetAnswer:
        """The stored result if a reset with this id has run before; else carry it out."""
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
        """Plan the reset and store the new offsets; a dry run ends with the plan.

        Raises `ResetRefused`, `GroupError`, `_OffsetsMissing`.
        """
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
        """The partitions to reset with their committed offsets. Raises `ResetRefused`.

        Without topics in the request these are all partitions with a committed offset.
        """
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
                raise ResetRefused(
                    f"{topic.topic} is an internal topic: remove it from spec.reset.topics"
                )
            size = len(view.partitions)
            for index in topic.partitions or range(size):
                if index >= size:
                    raise ResetRefused(
                        f"{topic.topic} has {counted(size, 'partition')} and none with number "
                        f"{index}: correct spec.reset.topics"
                    )
                commit = offsets.get(TopicPartition(topic.topic, index))
                # A commit may be for a deleted topic of the same name.
                has_commit = commit is not None and commit.is_for(view.topic_id)
                chosen[At(topic.topic, index)] = _PartitionToReset(
                    view.topic_id, commit.offset if commit is not None and has_commit else None
                )
        return chosen


def _reset_positions(
    request: ResetRequest, chosen: Mapping[At, _PartitionToReset], *, has_members: bool
) -> dict[At, ResetOffsets]:
    """The offsets from which the plan makes each partition's new one. Raises `_OffsetsMissing`."""
    reported = {
        At(topic.topic, position.partition): position
        for topic in request.positions
        for position in topic.partitions
    }
    # Any present time will do: only whether the reset is to a time matters here.
    needs_time = moment_ms(request.reset, 0) is not None
    return {
        at: _reset_position(
            at, state, reported.get(at), has_members=has_members, needs_time=needs_time
        )
        for at, state in chosen.items()
    }


def _reset_position(
    at: At,
    state: _PartitionToReset,
    reported: PartitionPosition | None,
    *,
    has_members: bool,
    needs_time: bool,
) -> ResetOffsets:
    """The offsets of one partition, as its leader `reported` them to the operator.

    `needs_time`: the reset is to a time, so the first offset of that time is needed, too. Raises
    `_OffsetsMissing`.
    """
    earliest = None if reported is None else reported.log_start_offset
    latest = None if reported is None else reported.end_offset
    first_offset_of_time = None if reported is None else reported.since_offset
    if earliest is None or latest is None or (needs_time and first_offset_of_time is None):
        why = f" ({reported.refusal})" if reported is not None and reported.refusal else ""
        raise _OffsetsMissing(
            f"the leader of {at} has not reported its first and last offset yet{why}: "
            "the reset is tried again"
        )
    if has_members and state.committed is not None:
        # Members may have read further after the leader reported its end offset. What they
        # committed exists.
        latest = Offset(max(latest, state.committed))
    return ResetOffsets(
        earliest=earliest,
        latest=latest,
        committed=state.committed,
        # None: no record is as new as the time of the reset.
        first_offset_of_time=first_offset_of_time
        if first_offset_of_time is not None and first_offset_of_time < latest
        else None,
    )


def _new_reset(
    reset: Reset, planned: ResetPlan, chosen: Mapping[At, _PartitionToReset], now_ms: int
) -> NewReset:
    """The records to store: the reset under its id, and the new offsets as commits."""
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
    """The offsets before and after a stored reset, for the answer."""
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
    """The message of a dry run, which also says what the group's members would mean for the reset:
    it would remove them, or be refused."""
    if not members:
        return message
    group = f"the group has {counted(members, 'member')}"
    if reset.while_active is WhileActive.FENCE:
        about_members = f"{group}, which the reset would remove"
    else:
        about_members = f"{group}: the reset would be refused until all members have left"
    return f"{about_members}; {message}"[:MAX_MESSAGE_LENGTH] if message else about_members


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
