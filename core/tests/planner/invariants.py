"""What must hold of partition maps after every write, whoever made it and when."""

from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.resource import Resource
from chiplog_core.validate import partition_map
from tests.planner.lookups import look


def check_map(one: PartitionMap) -> None:
    """What holds of every map by itself, and that it reads back as it was written."""
    assert PartitionMap.from_manifest(one.to_manifest()).spec == one.spec
    assert not list(partition_map.check_map(one.spec))


def check_change(before: PartitionMap, after: PartitionMap) -> None:
    """What must hold of two states of a map, one written over the other (R2, R4)."""
    assert not list(partition_map.check_change(before.spec, after.spec))


def is_version(known: Resource, meta: Metadata) -> bool:
    return known.metadata.resource_version == meta.resource_version


def knows_less(new: PartitionMap, applied: PartitionMap) -> bool:
    states = look(new).states
    buried = {tombstone.topic_id for tombstone in new.spec.tombstones}
    for (topic_id, partition), state in look(applied).states.items():
        found = states.get((topic_id, partition))
        if found is state:
            continue
        if found is None:
            if topic_id not in buried:
                return True
        elif (
            found.leader_epoch < state.leader_epoch or found.partition_epoch < state.partition_epoch
        ):
            return True
    return False
