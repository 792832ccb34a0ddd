"""Counts of partitions that are offline or under-replicated, made once per plan from the observed
maps."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.pinned import NONE_PINNED, Pinned
from chiplog_core.observed.places import Level, Place
from chiplog_core.observed.shared_domains import SharedDomains
from chiplog_core.topic_name import is_internal


@dataclass(slots=True)
class TopicCounts:
    """The partitions of one topic whose state is reported in conditions."""

    offline: list[PartitionIndex] = field(default_factory=list)
    """Partitions without a live leader."""
    awaiting_reports: list[PartitionState] = field(default_factory=list)
    """Partitions with `reports_wanted` that have a leader or a live broker of their ISR."""


@dataclass(slots=True)
class Sharing:
    """The partitions of users with two replicas in one failure domain of a level, although another
    one is free."""

    partitions: int = 0
    """Those that a Rebalance may separate."""
    pinned: Counter[str] = field(default_factory=Counter)
    """Topic name -> its other ones, which spec.assignments places there."""
    names: set[str] = field(default_factory=set)
    """The racks, or the nodes, with two replicas of one of them."""


@dataclass(slots=True)
class Counts:
    """Counts over all topics of a cluster. Internal topics count except in `topics` and
    `partitions`."""

    topics: int = 0
    """Topics of users."""
    partitions: int = 0
    """Partitions of topics of users."""
    offline: int = 0
    """Partitions without a live leader."""
    under_replicated: int = 0
    """Partitions with a replica that is dead or out of sync."""
    lagging: set[BrokerId] = field(default_factory=set)
    """Brokers with a replica that is dead or out of sync."""
    not_preferred: int = 0
    """Partitions led by another broker than their preferred leader."""
    moving: int = 0
    """Partitions with a reassignment that is not complete."""
    leaving_data: int = 0
    """Other partitions with data of removed replicas to delete."""
    sharing: int = 0
    """Partitions of users with two replicas in one rack or on one node, although another one is
    free."""
    sharing_at: dict[Level, Sharing] = field(default_factory=lambda: defaultdict(Sharing))
    """The same for racks and for nodes."""
    awaiting_reports: int = 0
    """Sum of `TopicCounts.awaiting_reports`."""
    of_topic: dict[str, TopicCounts] = field(default_factory=dict)
    """Topic name -> its partitions to report; topics without such partitions are missing."""


def count_partitions(
    maps: Mapping[str, PartitionMap], brokers: BrokerStates, pinned: Pinned = NONE_PINNED
) -> Counts:
    """Count the partitions of the current generation of each topic. `pinned` are those that their
    Topics place."""
    counts = Counts()
    domains = shared_domains(brokers)
    for name, partition_map in maps.items():
        spec = partition_map.spec
        for generation in spec.generations:
            if generation.topic_id != spec.current:
                continue
            if not is_internal(name):
                counts.topics += 1
                counts.partitions += len(generation.partitions)
            for state in generation.partitions:
                # A healthy partition with one replica changes no count; skipping it saves time.
                has_one_replica = len(state.replicas) == 1 and not (
                    state.reports_wanted or state.leftovers
                )
                if not (has_one_replica and state.leader in brokers.leaders):
                    _count(name, state, brokers, counts)
                    if not is_internal(name):
                        _count_shared(name, state, domains, counts, pinned)
    return counts


def _count(name: str, state: PartitionState, brokers: BrokerStates, counts: Counts) -> None:
    """Add the partition `state` of the topic `name` to the counts."""
    leader = state.leader
    if leader is None or brokers.process_state(leader) is not ProcessState.ALIVE:
        counts.offline += 1
        counts.of_topic.setdefault(name, TopicCounts()).offline.append(state.partition)
    elif leader.broker_id != state.replicas[0] and not state.is_moving:
        counts.not_preferred += 1
    counts.moving += state.is_moving
    counts.leaving_data += bool(state.leftovers) and not state.is_moving
    if state.reports_wanted and (leader is not None or _is_any_alive(state, brokers)):
        counts.awaiting_reports += 1
        counts.of_topic.setdefault(name, TopicCounts()).awaiting_reports.append(state)
    in_sync = {
        ref.broker_id for ref in state.isr if brokers.process_state(ref) is ProcessState.ALIVE
    }
    # A replica that is being added is not missing: the partition is as it was before.
    lagging = [broker_id for broker_id in state.assigned if broker_id not in in_sync]
    counts.lagging.update(lagging)
    counts.under_replicated += bool(lagging)


def shared_domains(brokers: BrokerStates) -> SharedDomains:
    """The racks and nodes of the brokers that are not retired."""
    staying = {one: broker for one, broker in brokers.by_id.items() if not broker.is_retired}
    return SharedDomains.of(
        {one: Place(broker.rack, broker.node) for one, broker in staying.items()},
        {one for one, broker in staying.items() if broker.may_lead and not broker.is_leaving},
    )


def _count_shared(
    name: str, state: PartitionState, domains: SharedDomains, counts: Counts, pinned: Pinned
) -> None:
    """Count the partition if replicas of it share a rack or node without need. One that is being
    moved counts as it will be."""
    by_level: dict[Level, set[str]] = {}
    for level, shared in domains.needless(state.target):
        by_level.setdefault(level, set()).add(shared)
    counts.sharing += bool(by_level)
    for level, names in by_level.items():
        sharing = counts.sharing_at[level]
        sharing.names |= names
        if state.partition in pinned.get(name, ()):
            sharing.pinned[name] += 1
        else:
            sharing.partitions += 1


def _is_any_alive(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether a broker of the ISR is alive, in any session. Otherwise nobody can report, and the
    partition counts only as offline."""
    return any(
        ref.broker_id in brokers.by_id
        and brokers.by_id[ref.broker_id].process_state is ProcessState.ALIVE
        for ref in state.isr
    )
