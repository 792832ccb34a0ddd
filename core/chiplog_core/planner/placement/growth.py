"""Placement of new partitions: of a new topic, and of a topic that grows by `Append`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionIndex, ReplicaRef
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.partition_map import Generation, PartitionState
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.places import Place
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.cordoned import cordoned_brokers
from chiplog_core.planner.brokers.volume_losses import losing_volumes
from chiplog_core.planner.placement.assignments import NOWHERE, Placements
from chiplog_core.planner.placement.striping import Load, Placement, place
from chiplog_core.planner.placement.volume_room import VolumeRoom
from chiplog_core.topic_name import is_internal


@dataclass(frozen=True, slots=True)
class PlacementTargets:
    """The brokers that can take new partitions, and their load."""

    places: Mapping[BrokerId, Place]
    """The rack and node of each of these brokers."""
    refs: Mapping[BrokerId, ReplicaRef]
    """Each of these brokers with its present session."""
    load: Load
    """How many replicas and preferred leaderships each of them has, including those of partitions
    that were placed in this plan."""
    spare: Mapping[BrokerId, Place] = field(default_factory=dict)
    """Brokers on cordoned nodes, with their places: used only for partitions with more replicas
    than there are other brokers."""
    room: VolumeRoom = field(default_factory=VolumeRoom)
    """The room on their volumes, for replicas that move."""

    def place_partitions(
        self,
        existing: tuple[PartitionState, ...],
        count: int,
        replicas: int,
        told: Placements = NOWHERE,
    ) -> tuple[PartitionState, ...]:
        """`count` more partitions of a topic with the `existing` ones, placed and added to the
        load. `told` has the brokers of those that a user places: at least one of each is a target.

        All their replicas on targets are in sync, because they have no records yet.
        """
        numbers = [PartitionIndex(len(existing) + number) for number in range(count)]
        spread: tuple[Placement, ...] = ()
        if any(number not in told for number in numbers):
            # Partitions that are placed by a user keep their places in the stripe free.
            has_enough = len(self.places) >= replicas
            spread = place(
                self.places if has_enough else {**self.places, **self.spare},
                existing=tuple(state.target for state in existing),
                count=count,
                replicas=replicas,
                load=self.load.copy(),
            )
        placements = [told.get(number) or spread[number - len(existing)] for number in numbers]
        self.load.add(placements)
        return tuple(map(self._state, numbers, placements))

    def _state(self, partition: PartitionIndex, placement: Placement) -> PartitionState:
        """A new partition with these replicas, led by the first one that runs. One that does not
        joins the ISR later, like any replica that was down."""
        isr = tuple(self.refs[broker_id] for broker_id in placement if broker_id in self.refs)
        return PartitionState(
            partition=partition,
            replicas=placement,
            isr=isr,
            leader=isr[0],
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        )


def find_placement_targets(
    world: World, brokers: BrokerStates, intents: Mapping[BrokerId, BrokerIntent]
) -> PlacementTargets:
    """The brokers that can take new partitions: those that are alive and not leaving, because a new
    partition needs a leader from the beginning. Those on cordoned nodes are the spare ones.

    `intents` are the decisions of this plan about each broker. Internal topics are spread
    separately and do not count as load, so that a user's first topic begins with the first broker.
    """
    serving = {
        broker_id: broker.ref
        for broker_id, broker in brokers.by_id.items()
        if broker.ref is not None
        and broker.may_lead
        and not broker.is_leaving
        and intents.get(broker_id, BrokerIntent.SERVE) is BrokerIntent.SERVE
    }
    spare = {
        broker_id: broker.ref
        for broker_id in sorted(cordoned_brokers(world) - losing_volumes(world) - serving.keys())
        if (broker := brokers.by_id.get(broker_id)) is not None
        and broker.ref is not None
        and broker.may_lead
        and not broker.is_stopping
        and intents.get(broker_id) is BrokerIntent.DRAIN
    }
    load = Load()
    maps_of_users = (
        partition_map for name, partition_map in world.maps.items() if not is_internal(name)
    )
    for partition_map in maps_of_users:
        for generation in partition_map.spec.generations:
            load.add(state.target for state in generation.partitions)
    return PlacementTargets(
        places={broker_id: brokers.place_of(broker_id) for broker_id in serving},
        refs=serving | spare,
        load=load,
        spare={broker_id: brokers.place_of(broker_id) for broker_id in spare},
    )


def grown(
    generation: Generation,
    count: int,
    replicas: int,
    targets: PlacementTargets,
    told: Placements = NOWHERE,
) -> Generation:
    """The generation, grown to `count` partitions in total; the new ones have so many replicas.
    `told` has the brokers of those that a user places."""
    existing = generation.partitions
    added_partitions = targets.place_partitions(existing, count - len(existing), replicas, told)
    return replace(generation, partitions=(*existing, *added_partitions))
