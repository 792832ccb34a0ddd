"""Metadata never goes back (R6): whether a map is older than the one that was applied."""

from chiplog_broker.metadata.kubernetes.topic_views import held_by
from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import Generation, PartitionMapSpec


def why_older(new: PartitionMapSpec, applied: PartitionMapSpec, broker_id: BrokerId) -> str:
    """In what respect `new` is older than `applied` for this broker's replicas; empty if it is not.

    A generation may disappear only with a tombstone, and the topic id of a tombstone never comes
    back.
    """
    deleted_ids = {tombstone.topic_id for tombstone in new.tombstones}
    generations = {generation.topic_id: generation for generation in new.generations}
    for tombstone in applied.tombstones:
        if tombstone.topic_id in generations:
            return f"topic id {tombstone.topic_id} was deleted"
    for generation in applied.generations:
        if generation.topic_id in deleted_ids or not held_by(generation, broker_id):
            continue
        new_generation = generations.get(generation.topic_id)
        if new_generation is None:
            return f"topic id {generation.topic_id} is missing"
        if why := _why_generation_older(new_generation, generation, broker_id):
            return why
    return ""


def _why_generation_older(new: Generation, applied: Generation, broker_id: BrokerId) -> str:
    """In what respect `new` is older for a partition of which this broker has a replica; empty if
    it is not."""
    new_partitions = {partition.partition: partition for partition in new.partitions}
    for partition in held_by(applied, broker_id):
        found = new_partitions.get(partition.partition)
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
