"""Connections break or hang, hosts are cut off in one or both directions, the network is slow."""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage


async def break_connections(stage: Stage) -> None:
    stage.world.network.break_some(stage.chance.uniform(0.1, 1.0))


async def hang_connections(stage: Stage) -> None:
    """Let some connections hang without an error at either end; new ones work."""
    hung = stage.world.network.hang_some(stage.chance.uniform(0.1, 1.0))
    stage.world.faults["connection hung"] += hung


async def partition(stage: Stage) -> None:
    """Cut a broker off from the API server, clients, brokers, or all, in one or both directions."""
    world, chance = stage.world, stage.chance
    hosts = [one.host for one in world.nodes.values()]
    clients = [one.host for one in world.clients]
    mine = stage.node().host
    others = chance.choice(
        (["api"], clients, [one for one in hosts if one != mine], ["api", *clients, *hosts])
    )
    both = chance.random() < 0.6
    towards = chance.random() < 0.5
    for other in others:
        if other != mine and (both or towards):
            world.network.cut(other, mine)
        if other != mine and (both or not towards):
            world.network.cut(mine, other)
    await asyncio.sleep(chance.uniform(0.5, 25.0))
    world.network.heal()


async def slow_network(stage: Stage) -> None:
    stage.world.network.slowest_s = stage.chance.choice((0.02, 0.1, 0.5))
    await asyncio.sleep(stage.chance.uniform(1.0, 15.0))
    stage.world.network.slowest_s = 0.002


ACTS: Final[dict[str, Act]] = {
    "connections broken": break_connections,
    "connections hang": hang_connections,
    "partition": partition,
    "slow network": slow_network,
}
