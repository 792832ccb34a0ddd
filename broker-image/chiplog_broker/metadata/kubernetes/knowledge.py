"""Metadata never goes back (R6): whether a map is older than the one that was applied."""

from chiplog_broker.metadata.kubernetes.topic_views import named_by
from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec


def why_older(new: PartitionMapSpec, applied: PartitionMapSpec, broker_id: BrokerId) -> str:
    """In what respect `new` is older than `applied` for the partitions that either of them assigns
    to this broker; empty if it is not.

    A generation may disappear only with a tombstone, and the topic id of a tombstone never comes
    back.
    """
    deleted_ids = {tombstone.topic_id for tombstone in new.tombstones}
    generations = {generation.topic_id: generation for generation in new.generations}
    for tombstone in applied.tombstones:
        if tombstone.topic_id in generations:
            return f"topic id {tombstone.topic_id} was deleted"
    for generation in applied.generations:
        if generation.topic_id in deleted_ids:
            continue
        new_generation = generations.get(generation.topic_id)
        if new_generation is None and not named_by(generation.partitions, broker_id):
            continue
        if new_generation is None:
            return f"topic id {generation.topic_id} is missing"
        if why := _why_generation_older(new_generation, generation, broker_id):
            return why
    return ""


def _why_generation_older(new: Generation, applied: Generation, broker_id: BrokerId) -> str:
    """In what respect `new` is older for a partition that either assigns to this broker; empty if
    it is not."""
    new_partitions = {partition.partition: partition for partition in new.partitions}
    for partition in applied.partitions:
        found = new_partitions.get(partition.partition)
        if broker_id not in partition.holders and (found is None or broker_id not in found.holders):
            continue
        if found is None:
            return f"partition {partition.partition} is missing"
        if (
            found.leader_epoch < partition.leader_epoch
            or found.partition_epoch < partition.partition_epoch
        ):
            return (
                f"partition {partition.partition} is at leaderEpoch {found.leader_epoch} and "
                f"partitionEpoch {found.partition_epoch}, below the applied "
                f"{partition.leader_epoch} and {partition.partition_epoch}"
            )
    return ""
