"""For how long replicas have been asked what they have: the memory that a plan cannot have.

Like the judge of Leases it has no clock of its own. Times are milliseconds of one monotonic
clock, the operator's; an operator that has just started counts from its start, which only makes
it wait longer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.planner.world import Question


@dataclass(slots=True)
class Watch:
    """The open questions of one cluster."""

    _since_ms: dict[Question, int] = field(default_factory=dict)

    def asked(self, maps: Iterable[PartitionMap], now_ms: int) -> Mapping[Question, int]:
        """`World.asked_ms` for these maps."""
        self._since_ms = {
            question: self._since_ms.get(question, now_ms) for question in _questions(maps)
        }
        return {question: now_ms - since_ms for question, since_ms in self._since_ms.items()}


def _questions(maps: Iterable[PartitionMap]) -> Iterable[Question]:
    for one in maps:
        for generation in one.spec.generations:
            for state in generation.partitions:
                if state.reports_wanted:
                    yield Question(generation.topic_id, state.partition, state.partition_epoch)
