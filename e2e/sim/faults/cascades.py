"""Brokers that are lost one after another, and brokers that only their clients reach.

They test what a single fault cannot: which broker was the last one running, brokers that return
with fewer records, and leaders that acknowledge while no follower fetches.
"""

import asyncio
from typing import Final

from chiplog_kube import kinds
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.loop import PROCESS

RETURN_WITHIN_S: Final = 15.0
"""The longest wait for a restarted broker to be admitted again."""
SHORT_S: Final = (0.02, 0.1, 0.5, 2.0)
LINKS: Final = (3, 8)
"""Least and greatest number of losses in a chain."""
WAIT_S: Final = 20.0


async def one_after_another(stage: Stage) -> None:
    """Cut the power of all nodes in turn, and restore it in the same order, also several times.

    So the first node to return has the fewest records, and the last one had run alone for a while.
    """
    nodes, chance = list(stage.world.nodes.values()), stage.chance
    chance.shuffle(nodes)
    between_s = chance.choice((0.1, 1.0, 9.0))
    for one in nodes:
        stage.world.count_hit(one)
        _cut_power(one)
        await asyncio.sleep(between_s * chance.uniform(0.5, 1.5))
    between_s, slow_s = chance.choice((0.1, 2.0, 8.0)), chance.choice((0.0, 0.5, 5.0))
    # Up to three rounds. All nodes return in the last one, and in any round that happens to choose
    # all of them, which then is the last.
    for is_last in (False, False, True):
        last = len(nodes) if is_last else chance.randint(1, len(nodes))
        for one in nodes[:last]:
            one.power_on()
            one.disks.slow_s = slow_s
            await asyncio.sleep(between_s * chance.uniform(0.5, 1.5))
        if last == len(nodes):
            break
        for one in nodes:
            _cut_power(one)
        await asyncio.sleep(chance.uniform(0.2, 2.0))
    for one in nodes:
        one.disks.slow_s = 0.0


def _cut_power(one: Node) -> None:
    if one.has_power:
        one.cut_power()


async def cut_off_and_lost(stage: Stage) -> None:
    """Cut a broker off from the other brokers only, and then cut its power."""
    network, one = stage.world.network, stage.node()
    others = [other.host for other in stage.world.nodes.values() if other is not one]
    for other in others:
        network.cut(one.host, other)
        network.cut(other, one.host)
    await asyncio.sleep(stage.chance.uniform(0.2, 9.0))
    _cut_power(one)
    network.heal()
    await asyncio.sleep(stage.chance.uniform(7.0, 12.0))
    one.power_on()


async def cut_off_at_a_write(stage: Stage) -> None:
    """Cut a broker off from the API server right after its next write there, for a while.

    The write is carried out, but the broker gets no answer.
    """
    world, one = stage.world, stage.node()
    process, has_written = one.process, asyncio.Event()
    name = f"{CLUSTER}-{one.broker_id}"

    def wrote(_verb: str, kind: str, written: str, _manager: str) -> None:
        """Called after each write of any client; cuts the broker off if it wrote its own Broker."""
        if kind == kinds.BROKERS.kind and written == name and PROCESS.get() is process:
            has_written.set()
            world.network.cut(one.host, "api")
            world.network.cut("api", one.host)

    world.server.on_write.append(wrote)
    try:
        async with asyncio.timeout(WAIT_S):
            await has_written.wait()
    except TimeoutError:
        return
    finally:
        if wrote in world.server.on_write:
            world.server.on_write.remove(wrote)
    stage.count_effect("cut off at a write")
    await asyncio.sleep(stage.chance.uniform(2.0, 16.0))
    world.network.heal()


async def back_and_gone(stage: Stage) -> None:
    """Cut a broker off from the API server until it is deposed; when it returns, end another one.

    The first broker's memory is of an earlier leader epoch, and it may have to lead immediately.
    """
    network, one, chance = stage.world.network, stage.node(), stage.chance
    before, until_s = _session(stage, one), stage.world.loop.time() + 2 * RETURN_WITHIN_S
    network.cut(one.host, "api")
    network.cut("api", one.host)
    await asyncio.sleep(chance.uniform(6.0, 9.0))
    network.heal()
    while (  # noqa: ASYNC110
        _session(stage, one) == before and stage.world.loop.time() < until_s
    ):
        await asyncio.sleep(0.02)
    await asyncio.sleep(chance.uniform(0.0, 0.5))
    other = chance.choice([each for each in stage.world.nodes.values() if each is not one] or [one])
    stage.world.count_hit(other)
    if chance.random() < 0.5:
        other.kill()
    elif other.has_power:
        other.cut_power()
        await asyncio.sleep(chance.choice(SHORT_S) * chance.uniform(0.5, 4.0))
        other.power_on()


async def chain(stage: Stage) -> None:
    """End brokers one by one, each at about the time when an earlier one returns.

    Those that return have slow disks for a while. Sometimes all that are left lose power together.
    """
    nodes, chance = stage.world.nodes.values(), stage.chance
    async with asyncio.TaskGroup() as group:
        gone: set[Node] = set()
        back = asyncio.Event()
        for _ in range(chance.randint(*LINKS)):
            going = [one for one in nodes if one not in gone]
            are_all = chance.random() < 0.3
            if not are_all:
                going = [chance.choice(going)]
            for one in going:
                stage.world.count_hit(one)
                gone.add(one)
                if not are_all and chance.random() < 0.5:
                    one.kill()
                else:
                    _cut_power(one)
                group.create_task(_return(stage, one, gone, back))
            if len(gone) == len(nodes) or chance.random() < 0.6:
                back.clear()
                await back.wait()
            await asyncio.sleep(chance.choice(SHORT_S) * chance.random())


async def _return(stage: Stage, one: Node, gone: set[Node], back: asyncio.Event) -> None:
    """Restore a broker's power and wait until it is admitted again, then set `back`.

    After `RETURN_WITHIN_S` it counts as returned in any case. `gone` has the brokers that are away.
    """
    chance, loop = stage.chance, stage.world.loop
    before = _session(stage, one)
    if not one.has_power:
        await asyncio.sleep(chance.choice((0.2, 2.0, 10.0)) * chance.uniform(0.5, 1.2))
        one.power_on()
    one.disks.slow_s = chance.choice((0.05, 0.5, 5.0))
    until_s = loop.time() + RETURN_WITHIN_S
    while _session(stage, one) == before and loop.time() < until_s:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    gone.discard(one)
    back.set()
    await asyncio.sleep(chance.uniform(0.5, 10.0))
    one.disks.slow_s = 0.0


def _session(stage: Stage, node: Node) -> object:
    """The newest session of the node's broker; None before its first one."""
    found = stage.world.store.find(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{node.broker_id}")
    return (found or {}).get("spec", {}).get("session")


ACTS: Final[dict[str, Act]] = {
    "one after another": one_after_another,
    "cut off and lost": cut_off_and_lost,
    "cut off at a write": cut_off_at_a_write,
    "chain": chain,
    "back and gone": back_and_gone,
}
