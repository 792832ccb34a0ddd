"""Planted bugs of upkeep: throttles, placements, Rebalances, drained brokers, rebuilt volumes.

Each function replaces one of the operator's or the broker's; `_sound_...` is the original.
"""

from dataclasses import replace
from typing import Any, Final

from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.world import World
from chiplog_core.planner import broker_objects as brokers_module
from chiplog_core.planner.moves.admin_reassignments import Wish
from chiplog_core.planner.volumes import rebuild_requests, survivors
from chiplog_core.planner.volumes.survivors import Needs
from chiplog_core.spark import rebalance_steps
from chiplog_core.throttle.copying import Copying, leader_rate
from chiplog_operator.caches import ClusterKey
from chiplog_operator.observe import Observer
from e2e.sim.mutants.moves import moving
from e2e.sim.mutants.mutant import LOSS, Mutant, Plant, plant

_sound_rebalances = Observer.rebalances


def _is_copying(_followers: Followers, _follower: ReplicaRef) -> bool:
    """Throttle every follower, also members of the ISR."""
    return True


def _leader_bytes(throttle: Any, copying: Copying) -> int | None:
    """Keep the limit that was in force first, until the process ends."""
    rate = leader_rate(throttle._config, copying)  # noqa: SLF001
    if rate is None:
        return None
    first = throttle.__dict__.setdefault("_first_rate", rate)
    available_bytes: int = throttle._leader.available_bytes(  # noqa: SLF001
        first,
        throttle._clock.monotonic_s(),  # noqa: SLF001
    )
    return available_bytes


def _needs(broker_id: BrokerId, world: World, brokers: BrokerStates) -> Needs:
    """Count every other replica as a copy, whether it has caught up or is still empty."""
    del brokers
    found = Needs()
    for spec, _, state in survivors._states_on(broker_id, world):  # noqa: SLF001
        if all(one == broker_id for one in state.assigned):
            found.last.append(f"{spec.topic_name}-{state.partition}")
    return found


def _start_over(steps: Any) -> None:
    """Keep the old proposal until there is a new one."""
    steps._abandon_run()  # noqa: SLF001
    steps._set(state=RebalanceState.PENDING_PROPOSAL, wish="", outcome=None)  # noqa: SLF001


def _rebalances(observer: Observer, key: ClusterKey) -> list[Rebalance]:
    """Take each approved proposal for one that is carried out, as long as the status has it."""
    found = []
    for one in _sound_rebalances(observer, key):
        proposal, moves = one.status.proposal, one.status.moves
        is_approved = proposal is not None and moves is not None and moves.proposal == proposal.id
        state = RebalanceState.REBALANCING if is_approved else one.status.state
        found.append(replace(one, status=replace(one.status, state=state)))
    return found


MUTANTS: Final = (
    Mutant(
        "a throttle holds members of the ISR back, too",
        moving(8.0, "replicas throttled", replicas=3, brokers=4, faults_s=50.0),
        frozenset({"throttled-member"}),
        plant(Followers, "is_copying", _is_copying),
    ),
    Mutant(
        "a throttle that is raised stays low for leaders",
        moving(2.0, "replicas throttled", "partitions reassigned", replicas=2, brokers=4),
        frozenset({"not-healed"}),
        plant(ReplicationThrottle, "leader_bytes", _leader_bytes),
    ),
    Mutant(
        "a volume goes because a replica that has not caught up counts as a copy",
        moving(4.0, "volume rebuilt", replicas=2, brokers=3),
        frozenset({"rebuilt-early"}) | LOSS,
        (
            Plant(rebuild_requests, "find_needs", _needs),
            Plant(rebuild_requests, "is_healthy", lambda *_: True),
        ),
    ),
    Mutant(
        "a refreshed Rebalance still carries out its old proposal",
        moving(8.0, "Rebalance refreshed midway", replicas=1, brokers=2, faults_s=60.0),
        frozenset({"old-proposal"}),
        (
            Plant(rebalance_steps._Steps, "_start_over", _start_over),  # noqa: SLF001
            Plant(Observer, "rebalances", _rebalances),
        ),
    ),
    Mutant(
        "a tool moves a partition that its Topic places",
        moving(2.0, "partitions placed", "partitions reassigned", replicas=1, brokers=3),
        frozenset({"moved-off", "not-placed"}),
        plant(Wish, "refusal", lambda *_: None),
    ),
    Mutant(
        "a broker under maintenance keeps its leaderships",
        moving(8.0, "broker maintained", replicas=2, brokers=3, faults_s=60.0),
        frozenset({"led-while-drained"}),
        plant(brokers_module, "under_maintenance", lambda _cluster: frozenset()),
    ),
)
