"""The requests to brokers: to each group's coordinator for its members and committed offsets, to
each partition's leader for its end offset.

The PartitionMaps show these brokers: a coordinator is the leader of the group's partition of
`__consumer_offsets`. Nothing is requested for a partition without a leader.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chiplog_core.group_watch.lags import Moment
from chiplog_core.groups.at import At
from chiplog_core.groups.placement import partition_of
from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.limits import MAX_EXCHANGED_GROUPS, MAX_EXCHANGED_ITEMS, MAX_EXCHANGED_OFFSETS
from chiplog_core.model.group_exchange import (
    GroupsRequest,
    OffsetsPartition,
    PartitionRequest,
    PositionsRequest,
    TopicRequest,
)
from chiplog_core.model.partition_map import PartitionMapSpec

FindTopic: TypeAlias = Callable[[str], PartitionMapSpec | None]
"""Returns the PartitionMap of the topic with this name; None if there is none that can be
parsed."""

MAX_WANTED = MAX_EXCHANGED_ITEMS // 10
"""How many partitions one request asks about at most. It is below the limit of the exchange,
because the size of a request in bytes is limited, too."""


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The partitions of `__consumer_offsets` and their leaders, which are the coordinators."""

    partitions: Mapping[int, tuple[BrokerId, OffsetsPartition] | None]
    """Partition -> (its leader, the partition with its leader epoch); None for a partition without
    a leader."""

    @classmethod
    def of(cls, offsets: PartitionMapSpec | None) -> "Coordinators":
        """The coordinators that the PartitionMap of `__consumer_offsets` names; none if there is
        no map yet."""
        states = () if offsets is None else offsets.current_partitions
        return cls(
            {
                state.partition: None
                if state.leader is None
                else (
                    state.leader.broker_id,
                    OffsetsPartition(partition=state.partition, leader_epoch=state.leader_epoch),
                )
                for state in states
            }
        )

    def partition_of(self, group_id: str) -> PartitionIndex | None:
        """The partition that stores the group; None until the topic exists."""
        count = len(self.partitions)
        return PartitionIndex(partition_of(group_id, count)) if count else None

    def of_group(self, group_id: str) -> BrokerId | None:
        """The broker that coordinates the group; None while its partition has no leader,
        and until the topic `__consumer_offsets` exists."""
        found = self.partitions.get(self.partition_of(group_id) or 0)
        return found[0] if found else None  # the leader of the partition coordinates the group

    def requests(
        self, groups: Collection[str], *, all_groups: bool
    ) -> dict[BrokerId, list[GroupsRequest]]:
        """The requests to each broker: for these groups, or for all groups that it coordinates."""
        if all_groups:
            return {
                broker_id: [GroupsRequest(partitions=tuple(led))]  # no group ids: all groups
                for broker_id, led in self._led(self.partitions).items()
            }
        by_broker: dict[BrokerId, list[str]] = defaultdict(list)
        for group_id in sorted(groups):
            broker_id = self.of_group(group_id)
            if broker_id is not None:
                by_broker[broker_id].append(group_id)
        return {
            broker_id: [
                self._request_for(named[begin : begin + MAX_EXCHANGED_GROUPS])
                for begin in range(0, len(named), MAX_EXCHANGED_GROUPS)
            ]
            for broker_id, named in by_broker.items()
        }

    def _request_for(self, named: Collection[str]) -> GroupsRequest:
        """The request for these groups, which all have the same coordinator."""
        numbers = {self.partition_of(group_id) for group_id in named}
        # All these partitions have the same leader, so there is one entry.
        led = self._led([number for number in numbers if number is not None])
        (partitions,) = led.values()
        return GroupsRequest(partitions=tuple(partitions), groups=tuple(named))

    def _led(self, numbers: Collection[int]) -> dict[BrokerId, list[OffsetsPartition]]:
        """Broker id -> the partitions of these numbers that it leads."""
        led: dict[BrokerId, list[OffsetsPartition]] = defaultdict(list)
        for number in sorted(numbers):
            found = self.partitions[number]
            if found is not None:
                leader, partition = found
                led[leader].append(partition)
        return dict(led)


def position_requests(
    ends: Collection[At],
    times: Collection[Moment],
    find_topic: FindTopic,
) -> dict[BrokerId, list[PositionsRequest]]:
    """The requests to each leader, for the end offsets of partitions (`ends`) and the timestamps of
    records (`times`).

    A request asks for at most `MAX_EXCHANGED_OFFSETS` timestamps in one partition.
    """
    offsets: dict[At, list[int]] = defaultdict(list)
    for at, offset in sorted(times):
        if len(offsets[at]) < MAX_EXCHANGED_OFFSETS:
            offsets[at].append(offset)
    wanted: dict[BrokerId, list[At]] = defaultdict(list)
    by_topic: dict[str, list[At]] = defaultdict(list)
    for at in sorted({*ends, *offsets}):
        by_topic[at.topic].append(at)
    for topic, in_topic in by_topic.items():
        leaders = _leaders(find_topic(topic))
        for at in in_topic:
            if at.partition in leaders:
                wanted[leaders[at.partition]].append(at)
    return {
        broker_id: [
            _positions_request(all_at[begin : begin + MAX_WANTED], offsets)
            for begin in range(0, len(all_at), MAX_WANTED)
        ]
        for broker_id, all_at in wanted.items()
    }


def partition_count(topic: str, find_topic: FindTopic) -> int:
    """The number of partitions of a topic; 0 if there is no such topic."""
    found = find_topic(topic)
    return 0 if found is None else len(found.current_partitions)


def _leaders(topic: PartitionMapSpec | None) -> dict[int, BrokerId]:
    """Partition -> the broker that leads it; partitions without a leader are left out."""
    states = () if topic is None else topic.current_partitions
    return {int(state.partition): state.leader.broker_id for state in states if state.leader}


def _positions_request(wanted: Collection[At], offsets: Mapping[At, list[int]]) -> PositionsRequest:
    """The request for the end offsets of these partitions and the timestamps at these offsets."""
    by_topic: dict[str, list[PartitionRequest]] = defaultdict(list)
    for at in wanted:
        times = tuple(Offset(offset) for offset in offsets.get(at, ()))
        by_topic[at.topic].append(
            PartitionRequest(partition=PartitionIndex(at.partition), offsets=times)
        )
    return PositionsRequest(
        topics=tuple(
            TopicRequest(topic=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        )
    )
