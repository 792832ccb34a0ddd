"""Sequences of upkeep that go wrong only if one certain rule of the code is broken.

As in `directed`, only mixes of planted bugs name them.
"""

import asyncio
from collections import Counter
from typing import Final

from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import scene
from e2e.sim.faults.move_steps import serving, users_partitions
from e2e.sim.faults.rebalances import annotate, state_of_rebalance
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.upkeep_watch import LATE_S
from e2e.sim.world import manifest

LONGER_S: Final = LATE_S + 1.0


async def refresh_midway(stage: Stage) -> None:
    """A Rebalance empties the broker with the most replicas, one partition at a time and hardly at
    all. It is refreshed while the first one moves, and its throttle is removed some time later.

    The other partitions must stay where they are then, until there is another proposal.
    """
    world, able = stage.world, serving(stage)
    counts = Counter(
        int(one) for _, state in users_partitions(stage) for one in state.replicas if one in able
    )
    if not counts or max(counts.values()) < 2:
        return
    world.has_changed_brokers = True
    name = f"midway-{world.store.version}"
    spec = {
        "clusterRef": {"name": CLUSTER},
        "measure": "Brokers",
        "mode": "remove-brokers",
        "brokers": [counts.most_common(1)[0][0]],
        "concurrentPartitionMovementsPerBroker": 1,
        "replicationThrottle": 1,
    }
    world.store.create(kinds.REBALANCES, manifest("Rebalance", name, spec))

    def is_in(state: RebalanceState) -> bool:
        return state_of_rebalance(stage, name) == state

    if not await scene.until(stage, lambda: is_in(RebalanceState.PROPOSAL_READY)):
        return
    annotate(stage, name, {labels.REBALANCE: "approve"})
    if not await scene.until(stage, lambda: is_in(RebalanceState.REBALANCING)):
        return
    if await scene.until(
        stage, lambda: any(state.is_moving for _, state in users_partitions(stage))
    ):
        stage.count_effect("refreshed midway")
        annotate(stage, name, {labels.REBALANCE: "refresh"})
        await scene.until(stage, lambda: is_in(RebalanceState.PENDING_PROPOSAL))
        await asyncio.sleep(LONGER_S)
    key = ObjectKey(NAMESPACE, name)
    world.store.patch(kinds.REBALANCES, key, {"spec": {"replicationThrottle": None}})


ACTS: Final[dict[str, Act]] = {"Rebalance refreshed midway": scene.exclusive(refresh_midway)}
