"""A PartitionMap that is gone, from what the brokers' disks know of it (R6).

A Topic with a `status.topicId` had a map. A fresh one would be another topic under the name, with
nothing in it, so the name waits until every partition was reported by every replica that the
newest report says is in sync.
"""

from collections.abc import Mapping

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import Generation, PartitionState
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.planner.regression import Reports, adopt


def rebuild(
    topic_id: TopicId, partitions: int, brokers: BrokerStates, reports: Reports
) -> Generation | list[PartitionIndex]:
    """The generation as brokers report it, or the partitions about which too little is known."""
    reported = {partition for known_id, partition in reports if known_id == topic_id}
    count = max(partitions, *(partition + 1 for partition in reported), 1)
    found: list[PartitionState] = []
    unknown: list[PartitionIndex] = []
    for partition in map(PartitionIndex, range(count)):
        state = _state(partition, reports.get((topic_id, partition), {}), brokers)
        if state is None:
            unknown.append(partition)
        else:
            found.append(state)
    return unknown or Generation(topic_id=topic_id, partitions=tuple(found))


def _state(
    partition: PartitionIndex, known: Mapping[BrokerId, ReplicaReport], brokers: BrokerStates
) -> PartitionState | None:
    """The partition from its reports; None if reports of in-sync replicas are missing."""
    if not known:
        return None
    newest = max(known.values(), key=lambda report: (report.leader_epoch, report.partition_epoch))
    in_sync = [ref.broker_id for ref in newest.isr]
    if any(broker_id not in known and not _is_retired(broker_id, brokers) for broker_id in in_sync):
        return None
    others = sorted(set(known) - set(in_sync))
    empty = PartitionState(
        partition=partition,
        replicas=(*in_sync, *others),
        isr=newest.isr,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )
    adopted = adopt(empty, known.values())
    return PartitionState(
        partition=partition,
        replicas=adopted.replicas,
        isr=adopted.isr,
        leader_epoch=LeaderEpoch(adopted.leader_epoch + 1),
        partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
        unclean_epoch=adopted.unclean_epoch,
    )


def _is_retired(broker_id: BrokerId, brokers: BrokerStates) -> bool:
    broker = brokers.by_id.get(broker_id)
    return broker is not None and broker.is_retired
