"""Planted bugs of moves of replicas: steps that come too early, or end in the wrong state.

Each function replaces one of the planner's or the broker's; `_sound_...` is the original.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from chiplog_broker.partitions.followers import Followers
from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.broker_status import SettledPartition
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.world import World
from chiplog_core.planner import broker_objects as brokers_module
from chiplog_core.planner import plan as plan_module
from chiplog_core.planner.leadership import elections, regression
from chiplog_core.planner.moves import reassignment, wanted_replicas
from chiplog_core.planner.placement.growth import PlacementTargets, find_placement_targets
from e2e.sim.clients import SPARING
from e2e.sim.faults import Mix
from e2e.sim.mutants.decisions import UNCHECKED
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix, plant

_sound_switched = reassignment._switched  # noqa: SLF001
_sound_released = reassignment._released  # noqa: SLF001
_sound_leader = elections._leader  # noqa: SLF001
_sound_why_no_new_replica = reassignment._why_no_new_replica  # noqa: SLF001
_sound_new_replica = wanted_replicas._new_replica  # noqa: SLF001


def _switched_and_released(
    state: PartitionState, topic_id: Any, min_isr: int, brokers: BrokerStates
) -> PartitionState:
    """Let the removed replicas be deleted with the switch, as Kafka does."""
    after = _sound_switched(state, topic_id, min_isr, brokers)
    if after is state:
        return state
    epoch = after.partition_epoch
    given_up = tuple(replace(one, removable_since=epoch) for one in after.leftovers)
    return replace(after, leftovers=given_up)


def _switched_at_once(
    state: PartitionState, topic_id: Any, min_isr: int, brokers: BrokerStates
) -> PartitionState:
    """Switch when one of the target replicas is in sync, whatever the others have."""
    del min_isr
    ready = tuple(ref.broker_id for ref in state.isr if ref.broker_id in state.target)
    if not ready:
        return state
    first = replace(state, replicas=(*ready, *state.removing), adding=())
    after = _sound_switched(first, topic_id, 1, brokers)
    if after is first:
        return state
    return replace(after, replicas=state.target)


def _leader_that_goes(
    state: PartitionState, isr: Any, topic_id: Any, brokers: BrokerStates
) -> ReplicaRef | None:
    """Of those that can lead, elect one that the reassignment removes."""
    found = _sound_leader(state, isr, topic_id, brokers)
    if found is None or found == state.leader:
        return found
    able = [ref for ref in isr if elections.can_lead(ref, state, topic_id, brokers)]
    return next((ref for ref in able if ref.broker_id in state.removing), found)


def _keep_dropped(state: PartitionState, target: Collection[BrokerId]) -> tuple[ReplicaRef, ...]:
    """Leave the replicas of a cancelled reassignment in the ISR."""
    del target
    return state.isr


def _in_any_order(
    isr: Collection[ReplicaRef], replicas: Sequence[BrokerId]
) -> tuple[ReplicaRef, ...]:
    """The ISR as it is, also with members that are no replicas."""
    del replicas
    return tuple(isr)


def _targets_that_leave(
    world: World, brokers: BrokerStates, intents: Mapping[BrokerId, Any]
) -> PlacementTargets:
    """Place new partitions on brokers that are being removed, too."""
    del intents
    serving = {one: replace(state, is_leaving=False) for one, state in brokers.by_id.items()}
    return find_placement_targets(world, replace(brokers, by_id=serving), {})


def _new_replica_that_stays(
    chosen: Any, state: PartitionState, targets: Any, brokers: BrokerStates, *, is_first: bool
) -> BrokerId | None:
    """Move replicas as before to brokers that stay, so that brokers can be removed in the end."""
    places = {
        one: place for one, place in targets.places.items() if not brokers.by_id[one].is_leaving
    }
    return _sound_new_replica(
        chosen, state, replace(targets, places=places), brokers, is_first=is_first
    )


def _why_no_new_replica(broker_id: BrokerId, state: PartitionState, brokers: BrokerStates) -> str:
    """Give a broker a new replica while it may still delete the last one."""
    return _sound_why_no_new_replica(broker_id, replace(state, leftovers=()), brokers)


def _new_replica(
    chosen: Any, state: PartitionState, targets: Any, brokers: BrokerStates, *, is_first: bool
) -> BrokerId | None:
    """Choose also among the brokers that still delete their last replica."""
    return _sound_new_replica(
        chosen, replace(state, leftovers=()), targets, brokers, is_first=is_first
    )


def _released_by_anybody(
    state: PartitionState,
    settled: Mapping[BrokerId, SettledPartition],
    topic_id: Any,
    brokers: BrokerStates,
) -> PartitionState:
    """Take a report of any earlier leader for the proof."""
    if state.leader is None or not settled:
        return state
    leader = state.leader
    report = max(settled.values(), key=lambda one: one.leader_epoch)
    report = replace(report, session=leader.session, leader_epoch=state.leader_epoch)
    return _sound_released(state, {leader.broker_id: report}, topic_id, brokers)


def _replicas_of_the_map(report: Any, state: PartitionState) -> PartitionState:
    """Adopt epochs and ISR of the newer report, and the reassignment of the restored map."""
    del report
    return state


def _is_ordered(leftover: Any, confirmation: Any, brokers: BrokerStates) -> bool:
    """Forget a removed replica as soon as its broker may delete it."""
    del confirmation, brokers
    return leftover.removable_since is not None


def moving(
    every_s: float, *faults: str, replicas: int = 3, brokers: int = 5, faults_s: float = 25.0
) -> Mix:
    """A short mix with more brokers than a partition has replicas, and few records."""
    return replace(
        mix(replicas, every_s, *faults, faults_s=faults_s),
        brokers=brokers,
        producers=2,
        consumers=1,
        pause_s=3.0,
        habits=SPARING,
    )


MUTANTS: Final = (
    Mutant(
        "the data of a moved replica goes with the switch",
        moving(2.0, "move hit at a step", "partitions reassigned"),
        frozenset({"released-early"}) | LOSS,
        (Plant(reassignment, "_switched", _switched_and_released), UNCHECKED),
    ),
    Mutant(
        "a move is complete before all new replicas are in sync",
        moving(2.0, "move hit at a step", "partitions reassigned"),
        frozenset({"switched-early"}) | LOSS | FORK,
        (Plant(reassignment, "_switched", _switched_at_once), UNCHECKED),
    ),
    Mutant(
        "a replica that is to be removed is elected first",
        moving(1.0, "move hit at a step", "partitions reassigned", "broker killed"),
        frozenset({"leader-to-go"}),
        plant(elections, "_leader", _leader_that_goes),
    ),
    Mutant(
        "a cancelled move leaves the ISR below its floor",
        moving(2.0, "cancelled with few", replicas=2, brokers=4),
        frozenset({"isr-below-floor"}),
        (Plant(reassignment, "_floor", lambda *_: 0), UNCHECKED),
    ),
    Mutant(
        "a cancelled move leaves its replica in the ISR",
        moving(2.0, "move hit at a step", "partitions reassigned"),
        frozenset({"broken-entry"}),
        (
            Plant(reassignment, "_isr_without_dropped", _keep_dropped),
            Plant(reassignment, "_in_order", _in_any_order),
            UNCHECKED,
        ),
    ),
    Mutant(
        "a broker that is being removed gets new replicas",
        moving(2.0, "placed during a removal", brokers=4),
        frozenset({"given-to-leaving"}),
        (
            Plant(plan_module, "find_placement_targets", _targets_that_leave),
            Plant(wanted_replicas, "_new_replica", _new_replica_that_stays),
        ),
    ),
    Mutant(
        "a replica returns before its last copy is deleted",
        moving(1.0, "move hit at a step", "partitions reassigned", "replicas changed"),
        frozenset({"holder-forgotten", "deleted-early"}) | LOSS | FORK,
        (
            Plant(reassignment, "_why_no_new_replica", _why_no_new_replica),
            Plant(wanted_replicas, "_new_replica", _new_replica),
            UNCHECKED,
        ),
    ),
    Mutant(
        "the report of a deposed leader proves that data may go",
        moving(2.0, "settled and lost", replicas=2, brokers=4),
        frozenset({"released-early"}) | LOSS,
        plant(reassignment, "_released", _released_by_anybody),
    ),
    Mutant(
        "a quiet partition counts as settled",
        moving(2.0, "move hit at a step", "partitions reassigned", "broker paused"),
        frozenset({"released-early"}) | LOSS,
        plant(Followers, "have_all_fetched", lambda _followers: True),
    ),
    Mutant(
        "an old reassignment is resumed after a restore",
        moving(2.0, "etcd restored during a move", replicas=2, brokers=4),
        frozenset({"old-move-back", "leaked"}) | LOSS | FORK,
        (Plant(regression, "_with_replicas_of", _replicas_of_the_map), UNCHECKED),
    ),
    Mutant(
        "a removed replica is forgotten before its data is gone",
        moving(2.0, "move hit at a step", "partitions reassigned", "broker killed"),
        frozenset({"holder-forgotten", "leaked"}),
        plant(reassignment, "_is_removed", _is_ordered),
    ),
    Mutant(
        "a broker is retired while it has the only replica",
        moving(2.0, "broker removed", replicas=1, brokers=3),
        frozenset({"not-healed", "not-readable", "no-progress"}) | LOSS,
        plant(brokers_module, "holding", lambda *_: frozenset()),
    ),
)
