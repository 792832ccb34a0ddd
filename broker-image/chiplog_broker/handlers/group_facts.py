"""Reports the groups that this broker coordinates to the operator.

It takes three steps, so that no lag is negative and nothing is reported that could be lost:

1. read members and committed offsets, those of each group at one instant;
2. wait until all of that is safe: the high watermark of its partition has passed it;
3. read the end offsets of the partitions that are led here, which only grow.

If this broker stops coordinating a partition in the meantime, the answer contains a refusal
instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.handlers.group_description import GroupDescriber
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import Slices
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.description import Description
from chiplog_core.ids import BrokerId, LeaderEpoch
from chiplog_core.limits import MAX_EXCHANGED_GROUPS, MAX_GROUP_ID_LENGTH
from chiplog_core.model.group_exchange import (
    GroupFacts,
    GroupRefusal,
    GroupsAnswer,
    GroupsRequest,
    OffsetsPartition,
    PartitionAnswer,
)
from chiplog_core.model.group_status import GroupState
from chiplog_wire.protocol.errors import ErrorCode

ANSWERED_ITEMS: Final = 5_000
"""Offsets and members after which an answer ends: about half a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The state of a group at one instant, or why this broker cannot report the group."""

    group_id: str
    shard: Shard | None = None
    """None if `refusal` is set."""
    refusal: GroupRefusal | None = None
    description: Description | None = None
    """None if the group does not exist."""
    commits: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    retention_ms: int | None = None

    @property
    def size(self) -> int:
        """The number of items in the answer: committed offsets, members, and the group itself."""
        members = () if self.description is None else self.description.members
        return 1 + len(self.commits) + len(members)


class GroupFactsHandler:
    """Reports groups from the coordinator's shards, each of which has the groups of one
    partition."""

    def __init__(
        self, coordinator: Coordinator, cluster: ClusterView, leaders: Leaders, clock: Clock
    ) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._clock = clock
        self._describer = GroupDescriber(cluster, leaders)

    async def answer(self, request: GroupsRequest) -> GroupsAnswer:
        """The groups that the request names, or all groups of the requested partitions of
        `__consumer_offsets`.

        An answer of limited size names in `next_after` its last group id: the next request starts
        after it.
        """
        slices, time_ms = Slices(self._clock), self._clock.now_ms()
        shards = {shard.partition.name.partition: shard for shard in self._coordinator}
        refusals: dict[int, GroupRefusal | None] = {
            requested.partition: self._refusal(shards.get(requested.partition), requested)
            for requested in request.partitions
        }
        serving = {index: shards[index] for index, why in refusals.items() if why is None}
        taken: list[Taken] = []
        next_after = None
        size = 0
        for group_id, shard, refusal in self._requested_groups(request, serving, refusals):
            if size >= ANSWERED_ITEMS or len(taken) >= MAX_EXCHANGED_GROUPS:
                next_after = taken[-1].group_id
                break
            taken.append(take(group_id, shard, refusal))
            size += taken[-1].size
            await slices.pause()
        # A deleted group is reported by its absence, so the high watermark must have passed its
        # tombstones, too.
        unsafe = await self._until_safe(serving)
        groups = [await self._facts(state, unsafe, slices) for state in taken]
        return GroupsAnswer(
            groups=tuple(groups),
            partitions=tuple(
                PartitionAnswer(
                    partition=requested.partition,
                    refusal=refusals[requested.partition] or unsafe.get(requested.partition),
                )
                for requested in request.partitions
            ),
            next_after=next_after,
            time_ms=time_ms,
        )

    def _refusal(self, shard: Shard | None, request: OffsetsPartition) -> GroupRefusal | None:
        """Why this broker does not coordinate a partition's groups in the requested leader epoch;
        None if it does. `shard` is None if this broker does not lead the partition."""
        cluster = self._cluster
        if shard is None or shard.leader_epoch != request.leader_epoch:
            return GroupRefusal.NOT_COORDINATOR
        if cluster.broker_is_isolated or cluster.broker_id not in cluster.brokers:
            return GroupRefusal.NOT_COORDINATOR  # fenced: the map may name another leader soon
        try:
            shard.check()
        except GroupError as refused:
            return refusal_of(refused.code)
        return None

    def _requested_groups(
        self,
        request: GroupsRequest,
        serving: Mapping[int, Shard],
        refusals: Mapping[int, GroupRefusal | None],
    ) -> list[tuple[str, Shard | None, GroupRefusal | None]]:
        """The requested groups by id: each with its shard, or with the reason of its refusal.

        `serving` has the shards of this broker by partition of `__consumer_offsets`, `refusals` the
        requested partitions that it does not coordinate.
        """
        after = "" if request.after is None else request.after
        found: list[tuple[str, Shard | None, GroupRefusal | None]] = []
        if not request.groups:
            found = [
                (group_id, shard, None)
                for shard in serving.values()
                for group_id in {*shard, *shard.retained()}
                if group_id > after and len(group_id) <= MAX_GROUP_ID_LENGTH
            ]
        for group_id in request.groups:
            if group_id > after:
                index = self._partition_of(group_id)
                shard = serving.get(index)
                refusal = refusals.get(index, GroupRefusal.NOT_COORDINATOR)
                found.append((group_id, shard, None if shard is not None else refusal))
        return sorted(found, key=lambda entry: entry[0])

    def _partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that stores the group; -1 if there is none."""
        try:
            return self._coordinator.partition_of(group_id)
        except GroupError:
            return -1  # there are no groups yet: no partition has this index

    async def _until_safe(self, serving: Mapping[int, Shard]) -> dict[int, GroupRefusal]:
        """Wait until the high watermark has passed all present records of these shards. Returns the
        partitions where that failed, with the reason."""

        async def safe(shard: Shard) -> GroupRefusal | None:
            try:
                await shard.until_all_safe()
            except GroupError as refused:
                return refusal_of(refused.code)
            return None

        found = await bounded_gather(safe(shard) for shard in serving.values())
        return {index: why for index, why in zip(serving, found, strict=True) if why is not None}

    async def _facts(
        self, taken: Taken, unsafe: Mapping[int, GroupRefusal], slices: Slices
    ) -> GroupFacts:
        """The facts of one group; `unsafe` are the partitions whose records cannot be reported."""
        shard, group = taken.shard, taken.description
        if shard is None:
            return GroupFacts(group_id=taken.group_id, refusal=taken.refusal)
        if why := unsafe.get(shard.partition.name.partition):
            return GroupFacts(group_id=taken.group_id, refusal=why)
        coordinator = BrokerId(self._cluster.broker_id)
        leader_epoch = LeaderEpoch(shard.leader_epoch)
        if group is None:
            return GroupFacts(
                group_id=taken.group_id,
                coordinator=coordinator,
                leader_epoch=leader_epoch,
                state=GroupState.DEAD,
                offset_retention_ms=taken.retention_ms,
            )
        members, assigned = await self._describer.members(group, slices)
        topics, is_whole = await self._describer.topics(taken.commits, assigned, slices)
        return GroupFacts(
            group_id=taken.group_id,
            coordinator=coordinator,
            leader_epoch=leader_epoch,
            state=group.state,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            generation=group.generation,
            member_count=len(group.members),
            members=members,
            topics=topics,
            is_whole=is_whole,
            offset_retention_ms=taken.retention_ms,
        )


def take(group_id: str, shard: Shard | None, refusal: GroupRefusal | None) -> Taken:
    """Copy the present state of a group from its shard; if `shard` is None, only the refusal is
    kept. The state must not be reported before the high watermark has passed the group's records.
    """
    if shard is None:
        return Taken(group_id=group_id, refusal=refusal)
    is_there = shard.exists(group_id)
    return Taken(
        group_id=group_id,
        shard=shard,
        description=shard.describe(group_id) if is_there else None,
        commits=dict(shard.offsets(group_id)),
        retention_ms=shard.retention_ms(group_id),
    )


def refusal_of(code: ErrorCode) -> GroupRefusal:
    """The refusal that the operator gets for one of Kafka's codes."""
    if code is ErrorCode.not_coordinator:
        return GroupRefusal.NOT_COORDINATOR
    if code is ErrorCode.coordinator_load_in_progress:
        return GroupRefusal.LOADING
    return GroupRefusal.UNAVAILABLE
