"""Moves the replicas of one partition to other brokers, in steps that each are one write.

1. *Begin*: `adding` and `removing` list what is to change, and `replicas` has both the new replicas
   and the old ones. The added brokers fetch; their leader proposes each for the ISR when it has
   caught up, as it does for any replica.
2. *Switch*: when all target replicas are in the ISR and can lead, they become the only replicas.
   The leader epoch is raised. The removed ones become `leftovers`: their data stays.
3. *Release*: when the leader of that epoch or of a later one reports that every replica has fetched
   in its epoch, each has stored the new map and has all committed records on disk. The proof is
   recorded in the leftovers, and only then their brokers may delete the data.
4. *Forget*: a leftover disappears when its broker has confirmed the deletion.

Before the switch a reassignment can be cancelled or replaced; the added brokers then become
leftovers like any other. All state is in the map, so another operator continues where the last one
stopped. Each step is judged again with every plan: nothing is decided while the replicas' reports
are wanted, or while a replica may know of newer maps (`elections.is_held`).

The protocol follows Kafka's (KIP-455), where replicas are deleted with the switch. Here the proof
is needed because a map may be restored from a backup: then the only copies must not be gone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.effective import min_isr as configured_min_isr
from chiplog_core.ids import (
    BrokerId,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.limits import MAX_REPLICAS_PER_PARTITION
from chiplog_core.model.broker_status import RemovedReplica, SettledPartition
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.reassignment import Leftover, leftovers_on
from chiplog_core.observed.broker_states import BrokerStates, ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.elections import (
    can_lead,
    is_held,
    with_generations,
    with_partitions,
)
from chiplog_core.planner.leadership.epochs import next_epoch


@dataclass(frozen=True, slots=True)
class MoveReports:
    """What brokers have reported about moved partitions."""

    settled: Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, SettledPartition]]
    """(topic id, partition) -> broker -> its report as the leader."""
    removed: Mapping[tuple[TopicId, PartitionIndex], Mapping[BrokerId, RemovedReplica]]
    """(topic id, partition) -> broker -> its confirmation that the data is deleted."""


States = Mapping[tuple[TopicId, PartitionIndex], PartitionState]
"""(topic id, partition) -> the partition's state in a map."""


def states_of(spec: PartitionMapSpec) -> States:
    """The states of all partitions of a map."""
    return {
        (generation.topic_id, state.partition): state
        for generation in spec.generations
        for state in generation.partitions
    }


def gather_move_reports(world: World) -> MoveReports:
    """The reports of all brokers about moved partitions."""
    settled: dict[tuple[TopicId, PartitionIndex], dict[BrokerId, SettledPartition]] = {}
    removed: dict[tuple[TopicId, PartitionIndex], dict[BrokerId, RemovedReplica]] = {}
    for broker_id, broker in world.brokers.items():
        for report in broker.status.settled_partitions:
            settled.setdefault((report.topic_id, report.partition), {})[broker_id] = report
        for removal in broker.status.removed_replicas:
            removed.setdefault((removal.topic_id, removal.partition), {})[broker_id] = removal
    return MoveReports(settled, removed)


def why_not_target(
    state: PartitionState, target: Sequence[BrokerId], spec: PartitionMapSpec, brokers: BrokerStates
) -> str:
    """Why the partition of this map cannot be moved to these replicas; empty if it can.

    A broker whose copy of the partition is being deleted cannot get a new one before that is
    complete: the deletion would otherwise hit the new copy.
    """
    if not target:
        return "no replicas are given"
    if len(set(target)) != len(target):
        return "a broker is given twice"
    if len({*target, *state.assigned}) > MAX_REPLICAS_PER_PARTITION:
        return f"old and new replicas together are more than {MAX_REPLICAS_PER_PARTITION}"
    # A default of min ISR is lower for fewer replicas.
    config = TopicConfig(spec.config, spec.inherited_config)
    min_isr = min(spec.min_isr, configured_min_isr(config, len(target)))
    if len(target) < min_isr and len(target) < len(state.assigned):
        return f"{len(target)} replicas are fewer than min.insync.replicas ({min_isr})"
    problems = (
        _why_no_new_replica(broker_id, state, brokers)
        for broker_id in target
        if broker_id not in state.replicas
    )
    return next(filter(None, problems), "") or _why_isr_too_small(state, target, spec.min_isr)


def _why_no_new_replica(broker_id: BrokerId, state: PartitionState, brokers: BrokerStates) -> str:
    """Why the broker cannot get a new replica of the partition; empty if it can."""
    broker = brokers.by_id.get(broker_id)
    if broker is None or broker.is_retired:
        return f"there is no broker {broker_id}"
    if broker.process_state is not ProcessState.ALIVE:
        return f"broker {broker_id} is not running"
    if broker.is_leaving:
        return f"broker {broker_id} is stopping, being drained or removed, or under maintenance"
    if any(one.broker == broker_id and one.removable_since is not None for one in state.leftovers):
        return f"broker {broker_id} is still deleting its last copy of the partition"
    return ""


def _why_isr_too_small(state: PartitionState, target: Sequence[BrokerId], min_isr: int) -> str:
    """Why dropping the added replicas that `target` does not have would leave the ISR below its
    floor; empty if it would not."""
    left = _isr_without_dropped(state, target)
    if len(left) < _floor(state, min_isr):
        return (
            f"only {len(left)} replicas would remain in sync, fewer than min.insync.replicas "
            f"({min_isr})"
        )
    return ""


def _floor(state: PartitionState, min_isr: int) -> int:
    """How many members the ISR must keep when a reassignment ends: min ISR, but no more than it
    has, nor than the partition had replicas before the reassignment."""
    return min(max(min_isr, 1), len(state.isr), len(state.assigned))


def _isr_without_dropped(
    state: PartitionState, target: Collection[BrokerId]
) -> tuple[ReplicaRef, ...]:
    """The ISR without the replicas that the present reassignment adds and `target` lacks."""
    return tuple(
        ref for ref in state.isr if ref.broker_id in state.assigned or ref.broker_id in target
    )


def begin(
    state: PartitionState, target: tuple[BrokerId, ...], topic_id: TopicId, brokers: BrokerStates
) -> PartitionState:
    """The partition with a reassignment to `target`, in place of the present one if there is one.

    The same object if nothing changes or it must wait: for a leader that is alive, or for reports.
    Check `why_not_target` first. With the present `assigned` replicas as the target, a reassignment
    is cancelled.
    """
    if target == state.target or is_held(state, brokers) or state.leader is None:
        return state
    if brokers.process_state(state.leader) is not ProcessState.ALIVE:
        return state
    isr = _isr_without_dropped(state, target)
    leader: ReplicaRef | None = state.leader
    if leader not in isr:
        leader = next((ref for ref in isr if can_lead(ref, state, topic_id, brokers)), None)
        if leader is None:
            return state
    assigned = state.assigned
    removing = tuple(broker for broker in assigned if broker not in target)
    dropped = tuple(
        broker for broker in state.adding if broker not in target and broker not in assigned
    )
    kept = tuple(one for one in state.leftovers if one.broker not in target)
    is_new_leadership = leader != state.leader
    return replace(
        state,
        replicas=(*target, *removing),
        adding=tuple(broker for broker in target if broker not in assigned),
        removing=removing,
        isr=_in_order(isr, (*target, *removing)),
        leader=leader,
        leader_epoch=next_epoch(state, brokers)
        if is_new_leadership or dropped
        else state.leader_epoch,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        leftovers=(*kept, *leftovers_on(dropped)),
    )


def reassign_all(
    spec: PartitionMapSpec, brokers: BrokerStates, reports: MoveReports, before: PartitionMapSpec
) -> PartitionMapSpec:
    """The map after the next step of each of its reassignments that is possible now.

    Partitions whose reports the map `before` still wanted wait for a later plan: what this plan
    adopts from the reports is a write of its own. Otherwise a map that was restored from a backup
    could lose a replica in one write that it has never called a leftover.
    """
    if spec.hibernated or spec.fence is not None:
        return spec
    generations = tuple(
        generation
        if generation.trash_until
        else _next_steps(generation, spec, brokers, reports, before)
        for generation in spec.generations
    )
    return with_generations(spec, generations)


def _next_steps(
    generation: Generation,
    spec: PartitionMapSpec,
    brokers: BrokerStates,
    reports: MoveReports,
    before: PartitionMapSpec,
) -> Generation:
    """The generation after the next possible step of each of its reassignments."""
    topic_id = generation.topic_id
    return with_partitions(
        generation,
        tuple(
            next_step(state, topic_id, spec.min_isr, brokers, reports)
            if (state.is_moving or state.leftovers)
            and not _wants_reports(before, topic_id, state.partition)
            else state
            for state in generation.partitions
        ),
    )


def _wants_reports(spec: PartitionMapSpec, topic_id: TopicId, partition: PartitionIndex) -> bool:
    """Whether the map asks the replicas of this partition for reports."""
    return any(
        state.reports_wanted
        for generation in spec.generations
        if generation.topic_id == topic_id and (state := generation.state_of(partition)) is not None
    )


def next_step(
    state: PartitionState,
    topic_id: TopicId,
    min_isr: int,
    brokers: BrokerStates,
    reports: MoveReports,
) -> PartitionState:
    """The partition after the next step of its reassignment; the same object if none is possible
    now."""
    if is_held(state, brokers):
        return state
    if state.is_moving:
        after = _switched(state, topic_id, min_isr, brokers)
        if after is not state:
            return after
    if not state.leftovers:
        return state
    key = topic_id, state.partition
    after = _forgotten(state, reports.removed.get(key, {}), brokers)
    if after is not state:
        return after
    return _released(state, reports.settled.get(key, {}), topic_id, brokers)


def _switched(
    state: PartitionState, topic_id: TopicId, min_isr: int, brokers: BrokerStates
) -> PartitionState:
    """The partition with the target replicas only; the same object while one of them is not in sync
    or cannot lead, or if they are fewer than min ISR."""
    target = state.target
    by_id = {ref.broker_id: ref for ref in state.isr}
    isr = tuple(by_id[broker_id] for broker_id in target if broker_id in by_id)
    if len(isr) < len(target) or len(isr) < _floor(state, min_isr):
        return state
    if not all(can_lead(ref, state, topic_id, brokers) for ref in isr):
        return state
    leader = state.leader if state.leader in isr else isr[0]
    return replace(
        state,
        replicas=target,
        adding=(),
        removing=(),
        isr=isr,
        leader=leader,
        # Also if the leader stays: a fetch in the new epoch proves that the follower has this map.
        leader_epoch=next_epoch(state, brokers),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        leftovers=(*state.leftovers, *leftovers_on(state.removing)),
    )


def _released(
    state: PartitionState,
    settled: Mapping[BrokerId, SettledPartition],
    topic_id: TopicId,
    brokers: BrokerStates,
) -> PartitionState:
    """The partition with its leftovers marked as removable, if the present leader has reported
    that they are not needed; the same object otherwise."""
    leader = state.leader
    if leader is None or all(one.removable_since is not None for one in state.leftovers):
        return state
    report = settled.get(leader.broker_id)
    is_proof = (
        report is not None
        and ReplicaRef(leader.broker_id, Session(report.session)) == leader
        and report.leader_epoch == state.leader_epoch
    )
    in_sync = {ref.broker_id for ref in state.isr}
    if not is_proof or in_sync != set(state.replicas):
        return state
    if not all(can_lead(ref, state, topic_id, brokers) for ref in state.isr):
        return state
    epoch = PartitionEpoch(state.partition_epoch + 1)
    return replace(
        state,
        partition_epoch=epoch,
        leftovers=tuple(
            replace(one, removable_since=epoch) if one.removable_since is None else one
            for one in state.leftovers
        ),
    )


def _forgotten(
    state: PartitionState, removed: Mapping[BrokerId, RemovedReplica], brokers: BrokerStates
) -> PartitionState:
    """The partition without the leftovers whose brokers have confirmed the deletion, or are gone
    for good; the same object if there are none."""
    left = tuple(
        one for one in state.leftovers if not _is_removed(one, removed.get(one.broker), brokers)
    )
    if len(left) == len(state.leftovers):
        return state
    return replace(state, leftovers=left, partition_epoch=PartitionEpoch(state.partition_epoch + 1))


def _is_removed(
    leftover: Leftover, confirmation: RemovedReplica | None, brokers: BrokerStates
) -> bool:
    """Whether the broker has confirmed this very removal, or is retired."""
    if leftover.removable_since is None:
        return False
    broker = brokers.by_id.get(leftover.broker)
    if broker is not None and broker.is_retired:
        return True
    return confirmation is not None and confirmation.partition_epoch >= leftover.removable_since


def _in_order(isr: Collection[ReplicaRef], replicas: Sequence[BrokerId]) -> tuple[ReplicaRef, ...]:
    """The ISR in the order of the replicas, so that equal ISRs make equal maps."""
    return tuple(sorted(isr, key=lambda ref: replicas.index(ref.broker_id)))
