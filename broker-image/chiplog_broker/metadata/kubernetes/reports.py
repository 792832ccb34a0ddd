"""The reports on replicas in this broker's status, derived from the maps that it has applied."""

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from chiplog_broker.metadata.kubernetes.topic_views import ordered_removals, uuid_of
from chiplog_broker.metadata.port import LogEnd
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    TopicId,
)
from chiplog_core.limits import MAX_TOMBSTONES
from chiplog_core.model.broker_status import RemovedReplica, ReplicaReport
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState

MAX_CONFIRMED = MAX_TOMBSTONES * 10

FindLogEnd = Callable[[UUID, str, int], LogEnd]


def replica_reports(
    applied: Iterable[PartitionMapSpec],
    regressed: Mapping[str, PartitionMapSpec | None],
    broker_id: BrokerId,
    log_end: FindLogEnd,
) -> tuple[list[ReplicaReport], list[ReplicaReport]]:
    """Two lists of reports: on the partitions of topics in `regressed`, whose map in the API has
    gone back or is missing (None); and on the other replicas here for which a map asks for a
    report.

    Of a map that has gone back, also partitions are reported that this broker has only there: the
    report is the only way to know where they were moved. `log_end` finds the end of a replica's
    log.
    """
    unrequested: list[ReplicaReport] = []
    requested: list[ReplicaReport] = []
    for spec in applied:
        is_regressed = spec.topic_name in regressed
        for generation in spec.generations:
            older = _partitions_of(regressed.get(spec.topic_name), generation.topic_id)
            for state in generation.partitions:
                named = state.holders | older.get(state.partition, frozenset())
                if broker_id in named and (is_regressed or state.reports_wanted):
                    report = _report(spec, generation, state, log_end)
                    (unrequested if is_regressed else requested).append(report)
    return unrequested, requested


def _partitions_of(
    spec: PartitionMapSpec | None, topic_id: TopicId
) -> dict[PartitionIndex, frozenset[BrokerId]]:
    """Partition -> the brokers that may have data of it, by this map."""
    generations = () if spec is None else spec.generations
    return {
        state.partition: state.holders
        for generation in generations
        if generation.topic_id == topic_id
        for state in generation.partitions
    }


def _report(
    spec: PartitionMapSpec, generation: Generation, state: PartitionState, log_end: FindLogEnd
) -> ReplicaReport:
    """The report on one replica: the partition as in the applied map, and the end of the log."""
    end = log_end(uuid_of(generation.topic_id), spec.topic_name, state.partition)
    return ReplicaReport(
        topic_id=generation.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        replicas=state.replicas,
        adding=state.adding,
        removing=state.removing,
        leftovers=state.leftovers,
        unclean_epoch=state.unclean_epoch,
        log_leader_epoch=None if end.leader_epoch is None else LeaderEpoch(end.leader_epoch),
        log_end_offset=Offset(end.offset),
        high_watermark=Offset(end.high_watermark),
        cut=end.lost_end,
    )


def removed_replicas(
    applied: Iterable[PartitionMapSpec],
    removed: Mapping[tuple[TopicId, PartitionIndex], PartitionEpoch],
    broker_id: BrokerId,
) -> list[RemovedReplica]:
    """The confirmations of removals that the maps still order. `removed` has the partitions whose
    data was deleted here, each with the partitionEpoch of the order."""
    return [
        RemovedReplica(topic_id=topic_id, partition=partition, partition_epoch=since)
        for spec in applied
        for topic_id, partition, since in ordered_removals(spec, broker_id)
        if removed.get((topic_id, partition)) == since
    ]


def confirmed_tombstones(
    applied: Iterable[PartitionMapSpec],
    deleted: Mapping[str, Collection[TopicId]],
    broker_id: BrokerId,
) -> tuple[TopicId, ...]:
    """Ids of deleted topics whose data this broker has deleted, while the maps have their
    tombstones. `deleted` has these ids by topic.

    Those that the operator has not recorded yet come first, because the list is limited.
    """
    found = [
        (broker_id in tombstone.confirmed, tombstone.topic_id)
        for spec in applied
        for tombstone in spec.tombstones
        if tombstone.topic_id in deleted.get(spec.topic_name, ())
    ]
    return tuple(topic_id for _, topic_id in sorted(found)[:MAX_CONFIRMED])
