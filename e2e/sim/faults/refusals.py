"""Connections to a running process are refused, as by a broken network plugin."""

import asyncio
from typing import Final

from chiplog_core.naming import ports
from chiplog_kube import kinds
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node


async def refuse_falsely(stage: Stage) -> None:
    """Reset the operator's connections to a broker's health port, and refuse new ones for a while.

    The operator must not take a refused connection as a proof that the broker is dead.
    """
    network, node = stage.world.network, stage.node()
    address = (node.host, ports.HEALTH)
    network.refused.add(address)
    for one in list(network.connections):
        if one.get_extra_info("peername") == address:
            stage.count_effect("connection of the operator closed")
            one.post(one.reset)
            one.pipe.target.post(one.pipe.target.reset)
    process = node.process
    await asyncio.sleep(stage.chance.choice((0.01, 0.5, 3.0)))
    network.refused.discard(address)
    if process is not None and process.is_alive and _is_fenced(stage, node):
        stage.count_effect("fenced although it lives")


def _is_fenced(stage: Stage, node: Node) -> bool:
    found = stage.world.store.find(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{node.broker_id}")
    return bool((found or {}).get("spec", {}).get("fenced"))


ACTS: Final[dict[str, Act]] = {"refused falsely": refuse_falsely}
