"""A second fault that begins before the first one is over."""

import asyncio
from typing import Final

from chiplog_kube import kinds
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node

RETURN_WITHIN_S: Final = 15.0


async def domino(stage: Stage) -> None:
    """Restart a broker, and cut another one's power for long at about the time of its return."""
    first, chance = stage.node(), stage.chance
    others = [one for one in stage.world.nodes.values() if one is not first]
    before = _session(stage, first)
    if chance.random() < 0.5:
        first.kill()
    else:
        first.cut_power()
        await asyncio.sleep(chance.uniform(0.1, 2.0))
        first.power_on()
    until_s = stage.world.loop.time() + RETURN_WITHIN_S
    while (  # noqa: ASYNC110 - nothing notifies of it
        _session(stage, first) == before and stage.world.loop.time() < until_s
    ):
        await asyncio.sleep(0.02)
    await asyncio.sleep(chance.choice((0.02, 0.1, 0.5, 2.0)) * chance.random())
    if not others:
        return
    second = chance.choice(others)
    stage.world.count_hit(second)
    if second.has_power:
        second.cut_power()
        await asyncio.sleep(chance.uniform(8.0, 12.0))
        second.power_on()


async def isolate_from_api(stage: Stage) -> None:
    """Cut a broker off from the API server for long, but not from clients and brokers."""
    network, mine = stage.world.network, stage.node().host
    network.cut(mine, "api")
    network.cut("api", mine)
    await asyncio.sleep(stage.chance.uniform(8.0, 16.0))
    network.heal()


def _session(stage: Stage, node: Node) -> object:
    """The newest session of the node's broker; None before its first one."""
    found = stage.world.store.find(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{node.broker_id}")
    return (found or {}).get("spec", {}).get("session")


ACTS: Final[dict[str, Act]] = {
    "domino": domino,
    "cut off the API server": isolate_from_api,
}
