"""Rebuilds a lost PartitionMap from the state on the brokers' disks (R6).

A Topic with a `status.topicId` had a map. A new map would be another, empty topic under the same
name. So the map is rebuilt instead, as soon as every in-sync replica of every partition has
reported. Which replicas are in sync is taken from the newest report.
"""

from collections.abc import Mapping
from dataclasses import replace

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import Generation, PartitionState
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.planner.leadership.regression import Reports, adopt


def rebuild(
    topic_id: TopicId, partitions: int, brokers: BrokerStates, reports: Reports
) -> Generation | list[PartitionIndex]:
    """The generation as brokers report it, or the partitions for which reports are missing.

    `partitions` is how many there were at least; a report may name a higher partition.
    """
    reported = {partition for reported_id, partition in reports if reported_id == topic_id}
    count = max(partitions, *(partition + 1 for partition in reported), 1)
    found: list[PartitionState] = []
    unreported: list[PartitionIndex] = []
    for partition in map(PartitionIndex, range(count)):
        state = _state(partition, reports.get((topic_id, partition), {}), brokers)
        if state is None:
            unreported.append(partition)
        else:
            found.append(state)
    return unreported or Generation(topic_id=topic_id, partitions=tuple(found))


def _state(
    partition: PartitionIndex, reports: Mapping[BrokerId, ReplicaReport], brokers: BrokerStates
) -> PartitionState | None:
    """The partition as its newest report describes it; None if an in-sync replica of that report
    has not reported itself. Brokers that are retired never will, and are not waited for."""
    if not reports:
        return None
    newest = max(reports.values(), key=lambda report: (report.leader_epoch, report.partition_epoch))
    in_sync = [ref.broker_id for ref in newest.isr]
    if any(
        broker_id not in reports and not _is_retired(broker_id, brokers) for broker_id in in_sync
    ):
        return None
    others = sorted(set(reports) - set(in_sync))
    # With epochs of 0, so that every report is newer.
    empty = PartitionState(
        partition=partition,
        replicas=(*in_sync, *others),
        isr=newest.isr,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )
    adopted = adopt(empty, reports.values())
    # Both epochs are raised, so that brokers take this state for newer than the one they reported.
    return replace(
        adopted,
        leader_epoch=LeaderEpoch(adopted.leader_epoch + 1),
        partition_epoch=PartitionEpoch(adopted.partition_epoch + 1),
    )


def _is_retired(broker_id: BrokerId, brokers: BrokerStates) -> bool:
    """Whether the broker is gone for good, so that it will never report."""
    broker = brokers.by_id.get(broker_id)
    return broker is not None and broker.is_retired
