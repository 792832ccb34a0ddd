"""How many brokers may be down at the same time without undercutting min.insync.replicas.

Each partition allows so many of its in-sync replicas to stop. A large cluster has few different
limits, so they are collected once, and a set of brokers is checked against them.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.actions import Action, Replace
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.moves.reassignment import states_of


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """The limits of all partitions."""

    limits: frozenset[tuple[frozenset[BrokerId], int]]
    """In-sync replicas that are alive, and how many of them may stop."""
    replicas: frozenset[frozenset[BrokerId]] = frozenset()
    """All replicas of each partition, in sync or not."""

    def allow(self, down: Set[BrokerId]) -> bool:
        """Whether all these brokers may be down at the same time."""
        return all(len(in_sync & down) <= most for in_sync, most in self.limits)

    def are_apart(self, brokers: Set[BrokerId]) -> bool:
        """Whether no two of these brokers have replicas of the same partition."""
        return len(brokers) == 1 or all(len(one & brokers) <= 1 for one in self.replicas)


def find_limits(maps: Mapping[str, PartitionMap], brokers: BrokerStates) -> RestartLimits:
    """The limits of the current partitions of all topics.

    A partition keeps min.insync.replicas. One replica of each partition may always stop if all are
    in sync: otherwise a partition with as many replicas as min.insync.replicas, or with only one,
    would keep its brokers from ever being restarted.
    """
    states = [
        (state, partition_map.spec.min_isr)
        for partition_map in maps.values()
        for state in partition_map.spec.current_partitions
    ]
    return RestartLimits(
        limits=frozenset(_limit(state, min_isr, brokers) for state, min_isr in states),
        replicas=frozenset(frozenset(state.replicas) for state, _ in states),
    )


def _limit(
    state: PartitionState, min_isr: int, brokers: BrokerStates
) -> tuple[frozenset[BrokerId], int]:
    """The partition's replicas that are alive and in sync, and how many of them may stop."""
    in_sync = frozenset(
        ref.broker_id for ref in state.isr if brokers.process_state(ref) is ProcessState.ALIVE
    )
    return in_sync, max(len(in_sync) - min(min_isr, len(state.assigned) - 1), 0)


def shrinks_any_isr(maps: Mapping[str, PartitionMap], actions: Iterable[Action]) -> bool:
    """Whether one of the actions removes a member from an ISR. The limits were found before that,
    so a restart must wait for the next plan."""
    for action in actions:
        if isinstance(action, Replace) and isinstance(action.resource, PartitionMap):
            before, after = maps[action.resource.spec.topic_name], action.resource
            if not _members(before) <= _members(after):
                return True
    return False


def _members(partition_map: PartitionMap) -> frozenset[tuple[object, ReplicaRef]]:
    """All members of the ISRs of the map's partitions."""
    return frozenset(
        (partition, ref)
        for partition, state in states_of(partition_map.spec).items()
        for ref in state.isr
    )
