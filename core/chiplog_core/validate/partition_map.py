"""Rules for a PartitionMap and for every write of one (R2, R4).

The planner follows these rules by its design. They are implemented here independently: the operator
checks each map before it writes it, so that a bug in the planner causes an error message and not
the loss of a record. Only partitions that a write changes are checked: others may have been edited
by hand, and that must not prevent the planner from repairing the map.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.partition_map import (
    Generation,
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
    Tombstone,
)

MOST_SHOWN = 5
"""How many broken rules one message lists."""


def broken_rules(before: PartitionMap | None, after: PartitionMap) -> tuple[str, ...]:
    """Messages about the first rules that a write of the map `after` breaks; empty if the map may
    be written.

    `before` is the map that is replaced, in the version that is replaced; None for a new map.

    Cost, measured with Python 3.11 on one core for 50 brokers and 5,000 partitions of three
    replicas in 50 maps: 22 µs a map if one broker died (1.1 ms for all 50), 240 µs a map if every
    leader moves (12 ms for all). Making the manifest of such a map takes 830 µs.
    """
    if before is None and after.metadata.resource_version:
        found = iter(("the new map has a resourceVersion, but there is no map that it replaces",))
    elif before is None:
        found = check_map(after.spec)
    elif before.metadata.resource_version != after.metadata.resource_version:
        found = iter(
            ("the new map was decided from another version than the one that it replaces",)
        )
    else:
        found = check_change(before.spec, after.spec)
    return tuple(islice(found, MOST_SHOWN))


def check_map(spec: PartitionMapSpec) -> Iterator[str]:
    """Rules for one state of a map."""
    for generation in spec.generations:
        for state in generation.partitions:
            yield from _check_state(state)


def check_change(before: PartitionMapSpec, after: PartitionMapSpec) -> Iterator[str]:
    """Rules for two states of a map, one of which replaces the other."""
    after_by_id = {generation.topic_id: generation for generation in after.generations}
    with_tombstone = _ids(after.tombstones)
    yield from _check_tombstones(before, after)
    min_isr = min(before.min_isr, after.min_isr)
    for was in before.generations:
        now = after_by_id.pop(was.topic_id, None)
        is_deleted = now is None and was.topic_id in with_tombstone
        if now is was or is_deleted:  # the planner reuses objects that it does not change
            continue
        if now is None:
            yield f"topic id {was.topic_id} is gone without a tombstone"
        else:
            yield from _check_generation(was, now, min_isr)
    for added in after_by_id.values():
        yield from chain.from_iterable(map(_check_state, added.partitions))


def _check_tombstones(before: PartitionMapSpec, after: PartitionMapSpec) -> Iterator[str]:
    """Rules for tombstones. A tombstone makes brokers delete the partitions with its topic id, even
    if the map still has them."""
    old_ids, new_ids = _ids(before.generations), _ids(after.generations)
    old_tombstones, new_tombstones = _ids(before.tombstones), _ids(after.tombstones)
    for topic_id in sorted((old_tombstones & new_ids) - old_ids):
        yield f"topic id {topic_id} is back although it has a tombstone"
    for topic_id in sorted((new_tombstones - old_tombstones) & new_ids):
        yield f"topic id {topic_id} gets a tombstone and keeps its partitions"


def _ids(items: Iterable[Generation] | Iterable[Tombstone]) -> set[TopicId]:
    return {item.topic_id for item in items}


def _check_generation(was: Generation, now: Generation, min_isr: int) -> Iterator[str]:
    """Rules for two states of a generation, that is of the partitions with one topic id."""
    new_by_number = {state.partition: state for state in now.partitions}
    for old in was.partitions:
        new = new_by_number.pop(old.partition, None)
        if new is old:
            continue
        if new is None:
            yield f"partition {old.partition} is gone without a tombstone"
        else:
            # A rule that was broken before is no reason to refuse the write: somebody may have
            # edited the map, and one election does not repair everything.
            broken_before = set(_check_state(old))
            yield from (broken for broken in _check_state(new) if broken not in broken_before)
            yield from _check_step(old, new, min_isr)
    for added in new_by_number.values():
        yield from _check_state(added)


def _check_state(state: PartitionState) -> Iterator[str]:
    """Rules for a partition's state."""
    which = f"partition {state.partition}"
    if state.leader is not None and state.leader not in state.isr:
        yield f"{which}: the leader {state.leader} is not in the ISR"
    in_sync = {member.broker_id for member in state.isr}
    if len(in_sync) != len(state.isr):
        yield f"{which}: the ISR names a broker twice"
    if not in_sync.issubset(state.replicas):
        yield f"{which}: the ISR names a broker that holds no replica"
    if len(set(state.replicas)) != len(state.replicas):
        yield f"{which}: a broker holds two replicas"
    if not set(state.adding).isdisjoint(state.removing):
        yield f"{which}: a replica is both added and removed"
    if not {*state.adding, *state.removing}.issubset(state.replicas):
        yield f"{which}: a reassignment names a broker that holds no replica"
    if not state.target:
        yield f"{which}: a reassignment removes all replicas"
    if any(leftover.broker in state.replicas for leftover in state.leftovers):
        yield f"{which}: a replica is also a leftover"


def _check_step(was: PartitionState, now: PartitionState, min_isr: int) -> Iterator[str]:
    """Rules for two states of a partition, one after the other."""
    which = f"partition {was.partition}"
    if now.leader_epoch < was.leader_epoch:
        yield f"{which}: the leader epoch falls from {was.leader_epoch} to {now.leader_epoch}"
    if now.partition_epoch < was.partition_epoch:
        fall = f"from {was.partition_epoch} to {now.partition_epoch}"
        yield f"{which}: the partition epoch falls {fall}"
    if now.leader != was.leader and now.leader_epoch == was.leader_epoch:
        yield f"{which}: the leader changes and keeps the leader epoch {was.leader_epoch}"
    yield from _check_move(was, now)
    is_changed = now.leader_epoch > was.leader_epoch or _decided(now) != _decided(was)
    if is_changed and now.partition_epoch == was.partition_epoch:
        yield f"{which}: it changes and keeps its partition epoch {was.partition_epoch}"
    floor = min(min_isr, len(was.isr))
    if not set(was.replicas).issubset(now.replicas):
        # A topic with fewer replicas than min ISR can be moved, too.
        floor = min(floor, len(was.assigned))
    if not was.reports_wanted and len(now.isr) < floor:
        yield f"{which}: the ISR falls from {len(was.isr)} to {len(now.isr)}, below {min_isr}"
    if _has_foreign_leader(was, now):
        yield f"{which}: the leader {now.leader} comes from outside the ISR"
    if not _may_be_unclean(was, now):
        unclean = f"from {was.unclean_epoch} to {now.unclean_epoch}"
        yield f"{which}: the epoch of its last unclean election changes {unclean}"


def _decided(state: PartitionState) -> tuple[object, ...]:
    """The parts of a partition's state whose change requires a new partition epoch."""
    return (
        state.leader,
        state.isr,
        state.replicas,
        state.adding,
        state.removing,
        state.leftovers,
        state.unclean_epoch,
    )


def _check_move(was: PartitionState, now: PartitionState) -> Iterator[str]:
    """Rules for a step of a reassignment (`planner.moves.reassignment`)."""
    if now.replicas == was.replicas and now.leftovers == was.leftovers:
        return
    which = f"partition {was.partition}"
    removable = _removable(was)
    if lost := was.holders - now.holders - removable:
        yield f"{which}: it forgets broker {min(lost)}, which may still hold its data"
    if not was.reports_wanted:  # a map that was restored from a backup may lack any number of steps
        yield from _check_steps_of_move(was, now)


def _check_steps_of_move(was: PartitionState, now: PartitionState) -> Iterator[str]:
    """Rules for the order of a reassignment's steps."""
    which, removable = f"partition {was.partition}", _removable(was)
    if again := removable.intersection(now.replicas):
        yield f"{which}: broker {min(again)} gets a replica while it deletes the last one"
    in_sync = {member.broker_id for member in now.isr}
    if released := _removable(now) - removable:
        unproven = {leftover.broker for leftover in was.leftovers}
        if in_sync != set(now.replicas) or not released.issubset(unproven):
            yield f"{which}: broker {min(released)} may delete its data without a proof"
    if unknown := set(now.replicas).difference(was.replicas, now.adding):
        yield f"{which}: broker {min(unknown)} holds a replica that no reassignment added"
    if early := in_sync.difference(was.replicas):
        yield f"{which}: broker {min(early)} is in sync before it could have fetched"
    removed = set(was.replicas).difference(now.replicas)
    if removed and now.leader_epoch == was.leader_epoch:
        yield f"{which}: it loses a replica and keeps its leader epoch {was.leader_epoch}"
    if removed.intersection(was.assigned) and in_sync != set(now.replicas):
        yield f"{which}: it loses broker {min(removed)} before all other replicas are in sync"


def _removable(state: PartitionState) -> set[BrokerId]:
    """The brokers that may delete their data of the partition."""
    return {one.broker for one in state.leftovers if one.removable_since is not None}


def _has_foreign_leader(was: PartitionState, now: PartitionState) -> bool:
    """Whether a single decision, without replica reports, elects a leader that was not in the ISR.

    Each decision raises the partition epoch by one, and a write may have several. If the epoch rose
    by more than one, the broker may have joined the ISR in an earlier decision of the same write.
    """
    if was.reports_wanted or now.leader is None or now.partition_epoch > was.partition_epoch + 1:
        return False
    return now.leader.broker_id not in {ref.broker_id for ref in (*was.isr, was.leader) if ref}


def _may_be_unclean(was: PartitionState, now: PartitionState) -> bool:
    """Whether the epoch of the last unclean election may change in this way. A change allows
    replicas to truncate acknowledged records, so it is allowed only after replicas have reported,
    and the epoch can only rise."""
    if now.unclean_epoch == was.unclean_epoch:
        return True
    if not was.reports_wanted or now.unclean_epoch is None:
        return False
    return was.unclean_epoch is None or now.unclean_epoch > was.unclean_epoch
