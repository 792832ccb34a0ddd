"""Chooses where the replicas of existing partitions should be, and begins the moves to get there.

A partition should have as many replicas as its topic asks for, and none on a broker that is being
removed. Its Topic may say on which brokers they should be (spec.assignments), else an approved
Rebalance may. Nothing else moves: replicas stay where they are as long as that is right. A moved
replica goes to a rack without a replica of its partition, else to a node without one, else to where
the fewest are, and there to the broker with the lowest load among those whose volumes have room.

Only so many moves are begun at a time that no broker copies more than a few partitions. They are
counted from the maps, so another operator continues in the same way.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.partition_map import (
    Generation,
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
)
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.places import Spread
from chiplog_core.planner.leadership.elections import with_generations, with_partitions
from chiplog_core.planner.moves.admin_reassignments import Reassignments
from chiplog_core.planner.moves.reassignment import States, begin, states_of, why_not_target
from chiplog_core.planner.moves.replica_orders import ReplicaOrder
from chiplog_core.planner.placement.assignments import NOWHERE, Placements
from chiplog_core.planner.placement.growth import PlacementTargets
from chiplog_core.planner.placement.striping import Load
from chiplog_core.topic_name import is_internal

MAX_COPIES = 5
"""Partitions that one broker copies at the same time."""

MAX_INTERNAL_COPIES = 1
"""The same for partitions of internal topics: the groups of a partition wait while its coordinator
reads it, so they should not all wait at once."""

Target = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the replicas of a topic should be placed."""

    replicas: int | None
    """Replicas of each partition; None to keep each partition's number."""
    leaving: frozenset[BrokerId]
    """Brokers that should have no replica."""
    ordered: Mapping[PartitionIndex, ReplicaOrder] = field(default_factory=dict)
    """Partition of the current generation -> where a Rebalance wants its replicas."""
    assigned: Placements = field(default_factory=dict)
    """The same for partitions that the Topic places: they follow no other rule."""

    def is_met_by(self, state: PartitionState) -> bool:
        """Whether the partition has these replicas already, or a move to them is in progress."""
        order = self.order_for(state)
        return self._allows(state.target) if order is None else order.target == state.target

    def order_for(self, state: PartitionState) -> ReplicaOrder | None:
        """The assignment of the Topic for the partition, else the order of a Rebalance, if it
        agrees with the rest; else None."""
        if (assigned := self.assigned.get(state.partition)) is not None:
            return ReplicaOrder(assigned)
        order = self.ordered.get(state.partition)
        return order if order is not None and self._allows(order.target) else None

    def _allows(self, target: Target) -> bool:
        """Whether the partition may have these replicas, whatever a Rebalance asks for."""
        has_count = self.replicas is None or len(target) == self.replicas
        return has_count and self.leaving.isdisjoint(target)


@dataclass(slots=True)
class Copies:
    """How many partitions each broker copies now, or will when this plan is carried out."""

    of_users: Counter[BrokerId] = field(default_factory=Counter)
    internal: Counter[BrokerId] = field(default_factory=Counter)

    def add(self, topic: str, added: Iterable[BrokerId]) -> None:
        """Count the replicas that a reassignment of a partition of the topic adds."""
        (self.internal if is_internal(topic) else self.of_users).update(added)

    def may_begin(self, topic: str, added: Iterable[BrokerId], most: int = MAX_COPIES) -> bool:
        """Whether each of these brokers may copy one more partition of the topic, if it may copy at
        most `most` of users' topics at a time."""
        if is_internal(topic):
            return all(self.internal[broker_id] < MAX_INTERNAL_COPIES for broker_id in added)
        return all(self.of_users[broker_id] < most for broker_id in added)


def count_copies(
    maps: Mapping[str, PartitionMap], brokers: BrokerStates, reassignments: Reassignments
) -> Copies:
    """The replicas that are being copied now, in all maps, and those of the `reassignments` that
    this plan begins. Those without a live leader do not count: they may wait for ever."""
    copies = Copies()
    for name, partition_map in maps.items():
        for generation in partition_map.spec.generations:
            targets = reassignments.get(generation.topic_id, {})
            for state in generation.partitions:
                added = state.adding
                if (target := targets.get(state.partition)) is not None:
                    added = tuple(one for one in target if one not in state.assigned)
                leader = state.leader if added else None
                if leader and brokers.process_state(leader) is ProcessState.ALIVE:
                    copies.add(name, added)
    return copies


def internal_load(maps: Mapping[str, PartitionMap]) -> Load:
    """The load by internal topics, which are spread separately."""
    load = Load()
    for name, partition_map in maps.items():
        if is_internal(name):
            for generation in partition_map.spec.generations:
                load.add(state.target for state in generation.partitions)
    return load


def leaving_brokers(brokers: Mapping[BrokerId, Broker]) -> frozenset[BrokerId]:
    """The brokers that are being removed, as their objects say."""
    return frozenset(
        broker_id
        for broker_id, broker in brokers.items()
        if broker.spec.intent is BrokerIntent.REMOVE and not broker.spec.retired
    )


@dataclass(frozen=True, slots=True)
class ReplicaMover:
    """Begins the moves that the specs of topics and the cluster ask for.

    `internal_targets` has the load by internal topics alone: their partitions are the groups'
    coordinators, and are spread separately.
    """

    brokers: BrokerStates
    targets: PlacementTargets
    internal_targets: PlacementTargets
    copies: Copies
    waiting: dict[str, str] = field(default_factory=dict)
    """Topic name -> why one of its partitions cannot begin its move. Partitions that only wait for
    others to be copied are not listed."""

    def begin(
        self, spec: PartitionMapSpec, wanted: Wanted, before: PartitionMapSpec
    ) -> PartitionMapSpec:
        """The map with the next moves towards what is wanted. Partitions that this plan changes
        otherwise, compared with the map `before`, wait for a later plan: each step is a write of
        its own."""
        if spec.hibernated or spec.fence is not None:
            return spec
        known = states_of(before)
        return with_generations(
            spec,
            tuple(
                generation
                if generation.trash_until
                else self._begun(
                    generation,
                    spec,
                    wanted
                    if generation.topic_id == spec.current
                    else replace(wanted, ordered={}, assigned=NOWHERE),
                    known,
                )
                for generation in spec.generations
            ),
        )

    def _begun(
        self,
        generation: Generation,
        spec: PartitionMapSpec,
        wanted: Wanted,
        known: States,
    ) -> Generation:
        """The generation with its next moves."""
        return with_partitions(
            generation,
            tuple(
                state
                if wanted.is_met_by(state)
                or known.get((generation.topic_id, state.partition)) is not state
                else self._moved(state, generation, spec, wanted)
                for state in generation.partitions
            ),
        )

    def _moved(
        self, state: PartitionState, generation: Generation, spec: PartitionMapSpec, wanted: Wanted
    ) -> PartitionState:
        """The partition with the move that it needs; the same object if it must wait."""
        targets = self.internal_targets if is_internal(spec.topic_name) else self.targets
        order = wanted.order_for(state)
        most = MAX_COPIES if order is None or order.max_copies is None else order.max_copies
        if order is not None:
            target: Target | None = order.target
        else:
            target = choose_target(state, wanted, targets, self.brokers)
        if target is None:
            return self._waits(state, spec, "too few brokers can take a new replica")
        if why_not := why_not_target(state, target, spec, self.brokers):
            return self._waits(state, spec, why_not)
        added = [broker_id for broker_id in target if broker_id not in state.replicas]
        if not self.copies.may_begin(spec.topic_name, added, most):
            return state
        after = begin(state, target, generation.topic_id, self.brokers)
        if after is state:
            return self._waits(state, spec, "no live broker leads it")
        targets.load.move(state.target, target)
        targets.room.take(state, after.adding)
        self.copies.add(spec.topic_name, after.adding)
        return after

    def _waits(self, state: PartitionState, spec: PartitionMapSpec, why: str) -> PartitionState:
        """The partition as it is; why it cannot move is remembered for the topic's status."""
        self.waiting.setdefault(spec.topic_name, f"partition {state.partition}: {why}")
        return state


def choose_target(
    state: PartitionState, wanted: Wanted, targets: PlacementTargets, brokers: BrokerStates
) -> Target | None:
    """The replicas that the partition should have; None if there are too few brokers for it now.

    A replica that has to go is replaced at its place in the order, so that the preferred leaders
    stay as even as they are.
    """
    count = len(state.target) if wanted.replicas is None else wanted.replicas
    chosen: list[BrokerId | None] = [
        None if broker_id in wanted.leaving else broker_id for broker_id in state.target
    ]
    chosen += [None] * (count - len(chosen))
    _drop(chosen, len(chosen) - count, state, targets, brokers)
    for place, broker_id in enumerate(chosen):
        if broker_id is None:
            new = _new_replica(chosen, state, targets, brokers, is_first=place == 0)
            if new is None:
                return None
            chosen[place] = new
    return tuple(broker_id for broker_id in chosen if broker_id is not None)


def _drop(
    chosen: list[BrokerId | None],
    surplus: int,
    state: PartitionState,
    targets: PlacementTargets,
    brokers: BrokerStates,
) -> None:
    """Drop this many replicas: first those that would have to be replaced, then those that are not
    in sync, then those whose rack and node have the most replicas. The preferred leader stays if
    it is in sync."""
    in_sync = {ref.broker_id for ref in state.isr}
    for _ in range(surplus):
        if None in chosen[1:]:
            del chosen[1 + chosen[1:].index(None)]
            continue
        spread = _spread(chosen, brokers)

        def to_go(
            place: int, spread: Spread = spread
        ) -> tuple[bool, tuple[bool, int, int], int, int]:
            broker_id = chosen[place]
            assert broker_id is not None, "only the first place may be empty"
            load = targets.load.replicas[broker_id]
            excess = spread.excess(brokers.place_of(broker_id))
            return broker_id not in in_sync, excess, load, place

        first = 0 if chosen[0] is not None and chosen[0] not in in_sync else 1
        del chosen[max(range(first, len(chosen)), key=to_go)]


def _spread(chosen: Collection[BrokerId | None], brokers: BrokerStates) -> Spread:
    """Where the chosen brokers are; empty places do not count."""
    return Spread.of(brokers.place_of(broker_id) for broker_id in chosen if broker_id is not None)


def _new_replica(
    chosen: Collection[BrokerId | None],
    state: PartitionState,
    targets: PlacementTargets,
    brokers: BrokerStates,
    *,
    is_first: bool,
) -> BrokerId | None:
    """The best broker for one more replica; None if there is none. A replica that the present
    reassignment was to remove is taken back first: it has the records already."""
    deleting = {one.broker for one in state.leftovers if one.removable_since is not None}
    candidates = [
        broker_id
        for broker_id in targets.places
        if broker_id not in chosen and broker_id not in deleting
    ]
    spread = _spread(chosen, brokers)
    load, room = targets.load, targets.room
    size_bytes = room.size_of(state)
    return min(
        candidates,
        key=lambda broker_id: (
            spread.crowding(brokers.place_of(broker_id)),
            broker_id not in state.replicas,
            room.is_short(broker_id, size_bytes),
            load.leaders[broker_id] if is_first else 0,
            load.replicas[broker_id],
            broker_id,
        ),
        default=None,
    )
