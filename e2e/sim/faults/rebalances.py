"""Rebalances: proposed, approved, and stopped or refreshed in the middle of their moves."""

import asyncio
from typing import Any, Final

from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import moves, scene
from e2e.sim.faults.move_steps import may_be_restored, serving
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MOST_BROKERS
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.world import manifest

PROPOSED_S: Final = 40.0
BEGUN_S: Final = 5.0
AT_ONCE: Final = (None, 1, 1, 2)
"""Choices for how many partitions a broker copies at a time."""


async def rebalance(stage: Stage) -> None:
    """Create a Rebalance, approve its proposal, and let it end, or stop or refresh it midway."""
    if not serving(stage):
        return
    world, chance = stage.world, stage.chance
    world.has_changed_brokers = True
    name = f"even-{world.store.version}"
    made = manifest("Rebalance", name, _spec(stage))
    way = chance.choice(("approve", "approve", "approve", "spec", "automatic"))
    if way == "automatic":
        made["metadata"]["annotations"] = {labels.REBALANCE_AUTO_APPROVAL: "true"}
    world.store.create(kinds.REBALANCES, made)
    for _ in range(chance.choice((1, 1, 2, 3))):
        if not await _until(stage, name, RebalanceState.PROPOSAL_READY, PROPOSED_S, way):
            break
        await asyncio.sleep(chance.choice((0.0, 0.0, 4.0)))
        _approve(stage, name, way)
        await _until(stage, name, RebalanceState.REBALANCING, BEGUN_S, way)
        await asyncio.sleep(chance.choice((0.0, 0.05, 0.5, 3.0)) * chance.random())
        command = chance.choice(("", "stop", "refresh", "refresh"))
        if not command:
            break
        annotate(stage, name, {labels.REBALANCE: command})
        stage.count_effect(f"Rebalance: {command}")
    if chance.random() < 0.2:
        world.store.delete(kinds.REBALANCES, ObjectKey(NAMESPACE, name))


def _spec(stage: Stage) -> dict[str, Any]:
    """A spec for all brokers, or to or from one of them."""
    chance, able = stage.chance, serving(stage)
    mode = chance.choice(("full", "full", "full", "add-brokers", "remove-brokers"))
    spec: dict[str, Any] = {"clusterRef": {"name": CLUSTER}, "measure": "Brokers", "mode": mode}
    if mode != "full":
        spec["brokers"] = [chance.choice(able)]
    if (at_once := chance.choice(AT_ONCE)) is not None:
        spec["concurrentPartitionMovementsPerBroker"] = at_once
    if chance.random() < 0.5:
        spec["replicationThrottle"] = chance.choice((1, 30, 300, 3_000))
    return spec


async def _until(stage: Stage, name: str, state: RebalanceState, within_s: float, way: str) -> bool:
    """Wait until the Rebalance is in this state. One that is approved automatically leaves
    `ProposalReady` at once."""
    wanted = {state, RebalanceState.REBALANCING} if way == "automatic" else {state}
    return await scene.until(stage, lambda: state_of_rebalance(stage, name) in wanted, within_s)


def state_of_rebalance(stage: Stage, name: str) -> str:
    """What the status of a Rebalance says; empty if there is none."""
    found = stage.world.store.peek(kinds.REBALANCES, NAMESPACE, name) or {}
    state: str = found.get("status", {}).get("state", "")
    return state


def _approve(stage: Stage, name: str, way: str) -> None:
    found: Manifest = stage.world.store.get(kinds.REBALANCES, NAMESPACE, name)
    if way == "approve":
        annotate(stage, name, {labels.REBALANCE: "approve"})
    elif way == "spec" and (proposal := found.get("status", {}).get("proposal")):
        patch = {"spec": {"approvedProposal": proposal["id"]}}
        stage.world.store.patch(kinds.REBALANCES, ObjectKey(NAMESPACE, name), patch)


def annotate(stage: Stage, name: str, annotations: dict[str, str]) -> None:
    """Set annotations of a Rebalance."""
    patch = {"metadata": {"annotations": annotations}}
    stage.world.store.patch(kinds.REBALANCES, ObjectKey(NAMESPACE, name), patch)


async def rebalance_automatically(stage: Stage) -> None:
    """Let brokers that are added get their share, and add one."""
    stage.world.has_changed_brokers = True
    modes = {"spec": {"autoRebalance": [{"mode": "add-brokers"}]}}
    stage.world.store.patch(kinds.BROKER_CLUSTERS, ObjectKey(NAMESPACE, CLUSTER), modes)
    await asyncio.sleep(stage.chance.choice((0.0, 5.0)))
    if moves.broker_count(stage) < MOST_BROKERS and not may_be_restored(stage):
        moves.scale(stage, moves.broker_count(stage) + 1)


OF_SPECS: Final[dict[str, Act]] = {
    "load rebalanced": rebalance,
    "load rebalanced automatically": rebalance_automatically,
}
