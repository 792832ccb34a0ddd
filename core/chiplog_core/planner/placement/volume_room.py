"""How much room the volumes of brokers have for more replicas (spec.brokerCapacity).

Brokers report the sum of their replicas' sizes and not each one, so the size of a replica is
estimated: the mean of the brokers that hold it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.observed.world import World


class Volume(NamedTuple):
    """What a broker reported."""

    total_bytes: int
    free_bytes: int
    log_bytes: int

    def room_bytes(self, max_percent: int) -> int:
        """How many bytes more its replicas may have, if they may use so much of the volume."""
        limit = self.total_bytes * max_percent // 100
        return max(0, min(limit - self.log_bytes, self.free_bytes))


def volume_of(world: World, broker_id: BrokerId) -> Volume | None:
    """What the broker reported of its volume; None if it is not known."""
    broker = world.brokers.get(broker_id)
    directory = None if broker is None else next(iter(broker.status.directories), None)
    if directory is None:
        return None
    total, free, logs = directory.total_bytes, directory.usable_bytes, directory.log_bytes
    if total is None or free is None or logs is None:
        return None
    return Volume(total, free, logs)


@dataclass(slots=True)
class VolumeRoom:
    """How many bytes more each broker may hold. Brokers whose volume is not known are missing."""

    left_bytes: dict[BrokerId, float] = field(default_factory=dict)
    """Without what is being copied to the broker, and what this plan lets it copy."""
    mean_bytes: Mapping[BrokerId, float] = field(default_factory=dict)
    """The mean size of a broker's replicas."""

    def size_of(self, state: PartitionState) -> float:
        """About how many bytes a replica of the partition has; 0 if that is not known."""
        known = [self.mean_bytes[one] for one in state.assigned if one in self.mean_bytes]
        return sum(known) / len(known) if known else 0

    def is_short(self, broker_id: BrokerId, size_bytes: float) -> bool:
        """Whether the broker is known to have too little room for a replica of that size."""
        left = self.left_bytes.get(broker_id)
        return left is not None and (left <= 0 or left < size_bytes)

    def take(self, state: PartitionState, added: Iterable[BrokerId]) -> None:
        """Count replicas of the partition that are copied to the brokers `added`."""
        size_bytes = self.size_of(state)
        for broker_id in added:
            if broker_id in self.left_bytes:
                self.left_bytes[broker_id] -= size_bytes


def find_volume_room(world: World, max_percent: int) -> VolumeRoom:
    """The room of each broker, if replicas may use so much of its volume."""
    volumes = {
        broker_id: volume
        for broker_id in world.brokers
        if (volume := volume_of(world, broker_id)) is not None
    }
    if not volumes:
        return VolumeRoom()
    held = replicas_held(world.maps)
    room = VolumeRoom(
        {broker_id: volume.room_bytes(max_percent) for broker_id, volume in volumes.items()},
        {
            broker_id: volume.log_bytes / held[broker_id]
            for broker_id, volume in volumes.items()
            if held[broker_id]
        },
    )
    for state in _states(world.maps):
        if state.adding:
            room.take(state, state.adding)
    return room


def replicas_held(maps: Mapping[str, PartitionMap]) -> Counter[BrokerId]:
    """How many replicas each broker has on its volume, those to be deleted included."""
    held = Counter(chain.from_iterable(state.replicas for state in _states(maps)))
    held.update(one.broker for state in _states(maps) for one in state.leftovers)
    return held


def replicas_to_copy(
    maps: Mapping[str, PartitionMap], leaving: Iterable[BrokerId]
) -> Counter[BrokerId]:
    """How many replicas of the brokers `leaving` are not yet completely on other brokers."""
    found = set(leaving)
    return Counter(
        broker_id for state in _states(maps) for broker_id in state.replicas if broker_id in found
    )


def _states(maps: Mapping[str, PartitionMap]) -> Iterable[PartitionState]:
    """All partitions of all generations."""
    return (
        state
        for partition_map in maps.values()
        for generation in partition_map.spec.generations
        for state in generation.partitions
    )
