"""Brokers that are to lead nothing for a while: under maintenance, or on nodes that are drained."""

import asyncio
from typing import Final

from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import scene
from e2e.sim.faults.move_steps import serving
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.maps import states_in

DRAINED_S: Final = (0.5, 5.0, 30.0, 60.0)


async def maintain(stage: Stage) -> None:
    """List a broker in `spec.maintenance`, for a while; sometimes another one instead of it."""
    for _ in range(stage.chance.choice((1, 1, 2))):
        if able := serving(stage):
            stage.world.has_changed_brokers = True
            _set_maintenance(stage, [stage.chance.choice(able)])
            await asyncio.sleep(stage.chance.choice(DRAINED_S))
    _set_maintenance(stage, None)


def _set_maintenance(stage: Stage, brokers: list[int] | None) -> None:
    listed = None if brokers is None else {"brokers": brokers}
    key = ObjectKey(NAMESPACE, CLUSTER)
    stage.world.store.patch(kinds.BROKER_CLUSTERS, key, {"spec": {"maintenance": listed}})


async def drain(stage: Stage) -> None:
    """Cordon a node, evict its pod when the broker leads nothing or patience ends, and uncordon the
    node some time later. Sometimes no pod is evicted."""
    able = serving(stage)
    if not able:
        return
    node = stage.world.nodes[stage.chance.choice(able)]
    stage.world.count_hit(node)
    _cordon(stage, node, is_cordoned=True)
    await scene.until(stage, lambda: not _leads_anything(stage, node))
    await asyncio.sleep(stage.chance.choice((0.0, 1.0, 25.0)))
    pod = ObjectKey(NAMESPACE, node.host)
    is_there = stage.world.store.peek(kinds.PODS, *pod) is not None
    if stage.chance.random() < 0.6 and is_there and scene.is_dispensable(stage, node):
        stage.world.store.delete(kinds.PODS, pod)
        await asyncio.sleep(stage.chance.choice((1.0, 8.0, 20.0)))
    _cordon(stage, node, is_cordoned=False)


def _cordon(stage: Stage, node: Node, *, is_cordoned: bool) -> None:
    patch = {"spec": {"unschedulable": True if is_cordoned else None}}
    stage.world.store.patch(kinds.NODES, ObjectKey("", f"node-{node.broker_id}"), patch)


def _leads_anything(stage: Stage, node: Node) -> bool:
    return any(
        state.leader is not None and state.leader.broker_id == node.broker_id
        for _, state in states_in(stage.world.store)
    )


def end(stage: Stage) -> None:
    """End all maintenance, and uncordon all nodes."""
    _set_maintenance(stage, None)
    for node in stage.world.nodes.values():
        _cordon(stage, node, is_cordoned=False)


ACTS: Final[dict[str, Act]] = {"node drained": drain}
OF_SPECS: Final[dict[str, Act]] = {"broker maintained": maintain}
