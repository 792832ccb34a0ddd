"""Planted bugs of the operator: wrong elections, ISRs, sessions and writes.

Each function replaces one of the operator's; `_sound_...` is the original.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from chiplog_core.ids import Incarnation, ReplicaRef, Session
from chiplog_core.model.broker import Broker
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed import sessions
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.liveness import LivenessJudge
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership import elections, proposals, regression
from chiplog_core.planner.leadership.elections import Isr
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import key_of
from chiplog_operator import execute
from chiplog_operator.caches import ClusterKey
from chiplog_operator.leadership import Leadership
from chiplog_operator.liveness import Liveness
from e2e.sim.api_server import ApiClient
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, Plant, mix, plant

_sound_changed = elections.changed
_sound_in_sync = elections.in_sync
_sound_replace = ApiClient.replace


def _no_epoch_for_the_deposed(
    state: PartitionState,
    isr: Isr,
    leader: ReplicaRef | None,
    brokers: BrokerStates,
    *,
    reports_wanted: bool = False,
) -> PartitionState:
    """Keep the leader epoch unless the leadership passes from one leader to another directly."""
    after = _sound_changed(state, isr, leader, brokers, reports_wanted=reports_wanted)
    is_handed_over = leader is not None and state.leader is not None
    return after if is_handed_over else replace(after, leader_epoch=state.leader_epoch)


def _leader_from_all_replicas(
    state: PartitionState, isr: Isr, topic_id: Any, brokers: BrokerStates
) -> ReplicaRef | None:
    """Elect any running replica, in the ISR or not."""
    del isr
    present = state.leader
    living = [brokers.by_id[one] for one in state.replicas if one in brokers.by_id]
    able = [one.ref for one in living if one.may_lead and one.ref is not None]
    del topic_id
    if present in able:
        return present
    return able[-1] if able else None


def _no_floor(state: PartitionState, topic_id: Any, min_isr: int, brokers: BrokerStates) -> Isr:
    """Compute the ISR as if `min.insync.replicas` were 1."""
    del min_isr
    return _sound_in_sync(state, topic_id, 1, brokers)


async def _put_blindly(api: ApiClient, kind: Any, given: Manifest, **more: Any) -> Manifest:
    """Write PartitionMaps without their resourceVersion, over changes of others."""
    if kind is not kinds.PARTITION_MAPS:
        return await _sound_replace(api, kind, given, **more)
    key = key_of(given)
    return await api.patch(kind, key.namespace, key.name, {"spec": given["spec"]}, **more)


def _next_session(_world: World, broker: Broker) -> Session:
    """Take the next session number without checking that it was never used."""
    return Session(broker.spec.session + 1)


def _ended_by_the_wall(liveness: Liveness, cluster: ClusterKey) -> Mapping[Incarnation, str]:
    """Compare a Lease's timestamp, written by a broker's clock, with the operator's wall clock."""
    judged = liveness._of(cluster)  # noqa: SLF001
    now = liveness._clock.now()  # noqa: SLF001
    expired = {
        lease.incarnation: "its Lease is old"
        for lease in judged.judge._leases.values()  # noqa: SLF001
        if (now - datetime.fromisoformat(lease.renew_time)).total_seconds() > LEASE_S
    }
    return {**judged.ended, **expired}


LEASE_S: Final = 6.0
UNCHECKED: Final = Plant(execute, "check_map_rules", lambda *_: None)
"""Turns off the operator's check of planned maps, so that the checkers have to find the bug."""
STOPPED: Final = frozenset({"map-write-refused"})
"""The operator's own check refused to write a map."""

MUTANTS: Final = (
    Mutant(
        "the epoch is not raised when the same leader restarts",
        mix(3, 2.0, "power cut", "broker killed", "slow disk"),
        LOSS | FORK,
        (
            Plant(elections, "changed", _no_epoch_for_the_deposed),
            Plant(regression, "changed", _no_epoch_for_the_deposed),
            Plant(regression, "next_epoch", lambda state, *_, **__: state.leader_epoch),
            UNCHECKED,
        ),
    ),
    Mutant(
        "an epoch that is not raised is not written",
        mix(3, 2.0, "power cut", "broker killed", "slow disk"),
        STOPPED,
        (
            Plant(elections, "changed", _no_epoch_for_the_deposed),
            Plant(regression, "changed", _no_epoch_for_the_deposed),
            Plant(regression, "next_epoch", lambda state, *_, **__: state.leader_epoch),
        ),
    ),
    Mutant(
        "election outside the ISR",
        mix(3, 2.0, "behind at an election", faults_s=20.0),
        LOSS | FORK,
        (Plant(elections, "_leader", _leader_from_all_replicas), UNCHECKED),
    ),
    Mutant(
        "an election outside the ISR is not written",
        mix(3, 2.0, "behind at an election", faults_s=20.0),
        STOPPED,
        plant(elections, "_leader", _leader_from_all_replicas),
    ),
    Mutant(
        "the ISR shrinks below its floor",
        mix(3, 2.0, "domino", "broker killed"),
        frozenset({"isr-below-floor"}),
        (
            Plant(elections, "in_sync", _no_floor),
            Plant(proposals, "is_above_floor", lambda *_: True),
            UNCHECKED,
        ),
    ),
    Mutant(
        "an ISR below its floor is not written",
        mix(3, 2.0, "domino", "broker killed"),
        STOPPED,
        (
            Plant(elections, "in_sync", _no_floor),
            Plant(proposals, "is_above_floor", lambda *_: True),
        ),
    ),
    Mutant(
        "maps are written without their resourceVersion",
        mix(3, 2.0, "API writes late", "broker killed", "power cut", operators=2),
        LOSS | FORK | {"epoch-back", "not-healed"},
        (
            Plant(ApiClient, "replace", _put_blindly),
            Plant(Leadership, "is_held", lambda _leadership: True),
        ),
    ),
    Mutant(
        "a refused connection counts as proof of death",
        mix(3, 4.0, "refused falsely"),
        frozenset({"not-healed", "no-progress"}),
        plant(LivenessJudge, "refused", LivenessJudge.terminated),
    ),
    Mutant(
        "a map that was restored is acted on before brokers reported",
        mix(3, 6.0, "etcd restored", "broker killed", "power cut", faults_s=80.0),
        LOSS | FORK | {"epoch-back", "not-healed"},
        (
            Plant(elections, "is_held", lambda *_: False),
            Plant(proposals, "is_held", lambda *_: False),
            Plant(regression, "is_above", lambda *_: False),
            Plant(regression, "is_beyond", lambda *_: False),
        ),
    ),
    Mutant(
        "a session number is used again after a restore",
        mix(3, 2.0, "back in time", faults_s=30.0),
        LOSS
        | FORK
        | {"duplicate", "reordered", "nonmonotonic-send", "client-problem", "not-healed"},
        plant(sessions, "_unused_session", _next_session),
    ),
    Mutant(
        "Leases are judged by the wall clock",
        mix(3, 3.0, "clock jump", "broker killed"),
        frozenset({"not-healed", "not-started"}),
        plant(Liveness, "ended", _ended_by_the_wall),
    ),
)
