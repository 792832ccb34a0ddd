"""What must hold of partition maps after every write, whoever made it and when."""

from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.model.resource import Resource
from tests.planner.objects import partitions_of


def check_map(one: PartitionMap) -> None:
    """What holds of every map by itself, and that it reads back as it was written."""
    assert PartitionMap.from_manifest(one.to_manifest()).spec == one.spec
    for _, _, state in partitions_of([one]):
        assert state.leader is None or state.leader in state.isr
        assert {member.broker_id for member in state.isr} <= set(state.replicas)
        assert len({member.broker_id for member in state.isr}) == len(state.isr)


def check_change(before: PartitionMap, after: PartitionMap) -> None:
    """What must hold of two states of a map, one written over the other (R2, R4)."""
    old = {(one.topic_id, state.partition): state for _, one, state in partitions_of([before])}
    new = {(one.topic_id, state.partition): state for _, one, state in partitions_of([after])}
    buried = {tombstone.topic_id for tombstone in after.spec.tombstones}
    for key, was in old.items():
        if key not in new:
            assert key[0] in buried, "a partition vanished without a tombstone"
            continue
        _check_epochs(was, new[key])
        if not was.reports_wanted:
            floor = min(before.spec.min_isr, after.spec.min_isr, len(was.isr))
            assert len(new[key].isr) >= floor, "the ISR fell below its floor"
    for tombstone in before.spec.tombstones:
        assert tombstone.topic_id not in {topic_id for topic_id, _ in new}, "an id came back"


def _check_epochs(was: PartitionState, now: PartitionState) -> None:
    assert now.leader_epoch >= was.leader_epoch
    assert now.partition_epoch >= was.partition_epoch
    if now.leader != was.leader:
        assert now.leader_epoch > was.leader_epoch, "a new reign under an old epoch"
    assert sorted(now.replicas) == sorted(was.replicas), "no replica moves yet"
    if (now.leader, now.isr, now.replicas) != (was.leader, was.isr, was.replicas):
        assert now.partition_epoch > was.partition_epoch


def is_version(known: Resource, meta: Metadata) -> bool:
    return known.metadata.resource_version == meta.resource_version


def knows_less(new: PartitionMap, applied: PartitionMap) -> bool:
    states = {(one.topic_id, state.partition): state for _, one, state in partitions_of([new])}
    buried = {tombstone.topic_id for tombstone in new.spec.tombstones}
    for _, one, state in partitions_of([applied]):
        found = states.get((one.topic_id, state.partition))
        if found is None:
            if one.topic_id not in buried:
                return True
        elif (
            found.leader_epoch < state.leader_epoch or found.partition_epoch < state.partition_epoch
        ):
            return True
    return False
