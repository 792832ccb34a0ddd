"""Planted bugs: restarted ISR members are trusted without a comparison (docs/decisions/0030)."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from chiplog_broker.metadata.kubernetes.membership import KubernetesMembership
from chiplog_broker.metadata.kubernetes.renewals import Renewals
from chiplog_broker.metadata.port import LogEnd
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.storage.recovery import LogRecovery
from chiplog_core.ids import BrokerId, ReplicaRef, TopicId
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.planner.leadership import comparison, elections, regression
from chiplog_core.planner.leadership.comparison import Elected, Outcome, Returned, Terms, Waiting
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix, plant


def _first_to_return(
    state: PartitionState,
    topic_id: TopicId,
    brokers: BrokerStates,
    reports: Mapping[BrokerId, ReplicaReport],
    terms: Terms,
) -> Outcome:
    """Elect the first ISR member that returns, without waiting for the others' reports."""
    returned = comparison.find_returned(state, topic_id, brokers, reports, terms)
    able = [one for one in returned if one.may_lead]
    if not able:
        return Waiting(tuple(ref.broker_id for ref in state.isr))
    return Elected(able[0].present, tuple(_present(ref, able) for ref in state.isr))


def _present(ref: ReplicaRef, returned: list[Returned]) -> ReplicaRef:
    """The returned member with its present session instead of the listed one."""
    return next((one.present for one in returned if one.listed == ref), ref)


def _in_present_session_by_disk(
    ref: ReplicaRef, _state: PartitionState, _topic_id: TopicId, brokers: BrokerStates
) -> ReplicaRef:
    """Keep a restarted member in the ISR, with its new session, if it says its disk is intact."""
    broker = brokers.by_id.get(ref.broker_id)
    if broker is None or broker.ref is None or broker.process_state is not ProcessState.ALIVE:
        return ref
    return (
        broker.ref if broker.has_all_records_of(ref) and ref.session < broker.ref.session else ref
    )


_sound_log_end = Replicas.log_end


def _as_a_whole_one(replicas: Replicas, topic_id: UUID, name: str, partition: int) -> LogEnd:
    """Report the end of a log without the note that recovery truncated it."""
    end = _sound_log_end(replicas, topic_id, name, partition)
    return LogEnd(end.offset, end.leader_epoch)


async def _nothing(_recovery: LogRecovery) -> None:
    pass


async def _never_older(_renewals: Renewals, *_: Any) -> bool:
    return False


MUTANTS: Final = (
    Mutant(
        "what recovery has read is not written again",
        mix(3, 20.0, "eio then dark", faults_s=110.0),
        LOSS | FORK | {"not-durable"},
        plant(LogRecovery, "rewrite_tail", _nothing),
    ),
    Mutant(
        "the first member to return leads",
        mix(3, 15.0, "rot then all killed", faults_s=50.0),
        LOSS | FORK | {"not-durable"},
        plant(regression, "compare", _first_to_return),
    ),
    Mutant(
        "a member is carried over by what its disk says",
        mix(3, 15.0, "rot then all killed", faults_s=50.0),
        LOSS | FORK | {"not-durable"},
        plant(elections, "_in_present_session", _in_present_session_by_disk),
    ),
    Mutant(
        "a log that was cut answers as a whole one",
        mix(3, 15.0, "rot then alone", faults_s=170.0),
        LOSS | FORK | {"not-durable"},
        plant(Replicas, "log_end", _as_a_whole_one),
    ),
    Mutant(
        "an older copy of a volume vouches",
        mix(3, 15.0, "volume put back and alone", faults_s=200.0),
        LOSS | FORK | {"not-durable", "not-healed"},
        (
            Plant(Renewals, "compare", _never_older),
            Plant(KubernetesMembership, "_is_older_than", lambda *_: False),
        ),
    ),
)
