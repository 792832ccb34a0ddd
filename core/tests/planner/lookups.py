"""What a broker looks up in a map, found once for each map: many brokers ask for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chiplog_core.ids import PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.partition_map import Generation, PartitionMap, PartitionState

Found = tuple[Generation, PartitionState]

_KEPT = 1_000
_lookups: dict[int, "Lookup"] = {}
"""By the identity of the map, which the lookup keeps from being given to another one."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The partitions of one map that concern somebody."""

    of_map: PartitionMap
    led: Mapping[ReplicaRef | None, Sequence[Found]]
    """By the leader."""
    states: Mapping[tuple[TopicId, PartitionIndex], PartitionState]
    restless: Sequence[Found]
    """Those with something left of a move, or with a question to the brokers."""


def look(one: PartitionMap) -> Lookup:
    """The lookup of this map."""
    found = _lookups.get(id(one))
    if found is None:
        if len(_lookups) >= _KEPT:
            _lookups.clear()
        found = _lookups[id(one)] = _made(one)
    return found


def _made(one: PartitionMap) -> Lookup:
    led: dict[ReplicaRef | None, list[Found]] = {}
    states, restless = {}, []
    for generation in one.spec.generations:
        for state in generation.partitions:
            states[generation.topic_id, state.partition] = state
            led.setdefault(state.leader, []).append((generation, state))
            if state.leftovers or state.reports_wanted:
                restless.append((generation, state))
    return Lookup(one, led, states, restless)
