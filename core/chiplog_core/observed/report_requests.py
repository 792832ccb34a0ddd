"""For how long questions to replicas have been answered, which plans need but cannot remember.

A question asks the replicas of a partition which records they have. The time of a question begins
with the first answer of a live member of the ISR. So it does not pass while no member can answer,
for example while all brokers are down.

Like `liveness`, this module has no clock of its own. Times are milliseconds of the operator's
monotonic clock. An operator that has just started counts from its start, so it only waits longer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chiplog_core.ids import PartitionEpoch
from chiplog_core.model.broker import Broker
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.observed.world import Question


@dataclass(slots=True)
class Watch:
    """The answered questions of one cluster."""

    _since_ms: dict[Question, int] = field(default_factory=dict)

    def asked(
        self, maps: Iterable[PartitionMap], brokers: Iterable[Broker], now_ms: int
    ) -> Mapping[Question, int]:
        """For each answered question, the milliseconds since its first answer, for
        `World.open_questions_ms`. A question is a partition whose map wants reports
        (`reports_wanted`), at one partition epoch."""
        self._since_ms = {
            question: self._since_ms.get(question, now_ms)
            for question in _answered_questions(maps, tuple(brokers))
        }
        return {question: now_ms - since_ms for question, since_ms in self._since_ms.items()}


def _answered_questions(
    maps: Iterable[PartitionMap], brokers: tuple[Broker, ...]
) -> Iterator[Question]:
    """The questions that at least one live member of the ISR has answered."""
    newest: dict[tuple[object, ...], PartitionEpoch] | None = None
    for partition_map in maps:
        for generation in partition_map.spec.generations:
            for state in generation.partitions:
                if not state.reports_wanted:
                    continue
                if newest is None:  # computed only if needed: usually there is no question
                    newest = _answers(brokers)
                keys = ((ref.broker_id, generation.topic_id, state.partition) for ref in state.isr)
                if any(newest.get(key, -1) >= state.partition_epoch for key in keys):
                    yield Question(generation.topic_id, state.partition, state.partition_epoch)


def _answers(brokers: tuple[Broker, ...]) -> dict[tuple[object, ...], PartitionEpoch]:
    """For each live broker and partition, the partition epoch at which it reported its replica."""
    return {
        (broker.spec.broker_id, report.topic_id, report.partition): report.partition_epoch
        for broker in brokers
        if _is_alive(broker)
        for report in broker.status.replica_reports
    }


def _is_alive(broker: Broker) -> bool:
    """Whether the admitted process wrote this status, and it is neither fenced nor retired."""
    spec, status = broker.spec, broker.status
    is_admitted = status.incarnation == spec.admitted_incarnation and status.session == spec.session
    return is_admitted and not spec.fenced and not spec.retired
