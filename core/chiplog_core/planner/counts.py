"""How the partitions of a cluster are: counted once per plan from the maps as observed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.topic_name import is_internal


@dataclass(slots=True)
class TopicCounts:
    """The partitions of one topic that need a word."""

    offline: list[PartitionIndex] = field(default_factory=list)
    """Without a leader that is alive."""
    questioned: list[PartitionState] = field(default_factory=list)
    """Those whose replicas are asked what they have, and where somebody lives who can answer."""


@dataclass(slots=True)
class Counts:
    """All of them."""

    topics: int = 0
    """Of users: those of the cluster itself are in all the other numbers."""
    partitions: int = 0
    """Of these topics."""
    offline: int = 0
    under_replicated: int = 0
    lagging: set[BrokerId] = field(default_factory=set)
    """Brokers that are not in the ISR of everything they hold."""
    needed: set[BrokerId] = field(default_factory=set)
    """Brokers without which some partition would have fewer in sync than acks=all asks for."""
    elsewhere: int = 0
    """Partitions led by another than their preferred leader."""
    questioned: int = 0
    """Partitions whose replicas are asked what they have."""
    of_topic: dict[str, TopicCounts] = field(default_factory=dict)
    """Only of topics where something is the matter."""


def count_partitions(maps: Mapping[str, PartitionMap], brokers: BrokerStates) -> Counts:
    """Count the partitions of all topics that clients can see."""
    counts = Counts()
    usual = brokers.leaders
    for name, partition_map in maps.items():
        spec = partition_map.spec
        for generation in spec.generations:
            if generation.topic_id != spec.current:
                continue
            if not is_internal(name):
                counts.topics += 1
                counts.partitions += len(generation.partitions)
            for state in generation.partitions:
                is_plain = len(state.replicas) == 1 and not state.reports_wanted
                if not (is_plain and state.leader in usual):
                    _count(name, state, spec.min_isr, brokers, counts)
    return counts


def _count(
    name: str, state: PartitionState, min_isr: int, brokers: BrokerStates, counts: Counts
) -> None:
    """Add one partition to the counts."""
    leader = state.leader
    if leader is None or brokers.process_state(leader) is not ProcessState.ALIVE:
        counts.offline += 1
        counts.of_topic.setdefault(name, TopicCounts()).offline.append(state.partition)
    elif leader.broker_id != state.replicas[0]:
        counts.elsewhere += 1
    if state.reports_wanted and (leader is not None or _is_any_back(state, brokers)):
        counts.questioned += 1
        counts.of_topic.setdefault(name, TopicCounts()).questioned.append(state)
    in_sync = {
        ref.broker_id for ref in state.isr if brokers.process_state(ref) is ProcessState.ALIVE
    }
    lagging = [broker_id for broker_id in state.replicas if broker_id not in in_sync]
    counts.lagging.update(lagging)
    counts.under_replicated += bool(lagging)
    if len(in_sync) - 1 < min(min_isr, len(state.replicas) - 1):
        counts.needed |= in_sync


def _is_any_back(state: PartitionState, brokers: BrokerStates) -> bool:
    """Whether a member of the ISR is alive. If none is, the partition is just offline."""
    return any(
        ref.broker_id in brokers.by_id
        and brokers.by_id[ref.broker_id].process_state is ProcessState.ALIVE
        for ref in state.isr
    )
