"""Sequences that do harm only where one certain rule is broken, each step at its moment.

By chance several such moments would hardly ever come one after another. No seed draws these:
the mixes of planted bugs name them.
"""

import asyncio
from typing import Final

from chiplog_core.model.broker import Broker
from chiplog_kube import kinds
from e2e.sim.api_store import Change
from e2e.sim.disk import SECTOR_BYTES
from e2e.sim.faults import scene
from e2e.sim.faults.scene import Cast
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, Node
from e2e.sim.wire import TopicPartition

LATE_S: Final = 1.0
"""So much later something arrives on a slow way: an ISR is changed within less."""
SETTLED_S: Final = 3.0
COMPARED_S: Final = 110.0
"""A member that was started again leads by then, where no other returns."""
WRITES: Final = 6
NEW_PRODUCERS: Final = 9
HASTY_PRODUCERS: Final = 2
HASTE_S: Final = 0.4


async def join_and_lose(stage: Stage) -> None:
    """One comes back to a leader that has just restarted and does not know how far all is safe.

    As soon as it is in sync that leader falls. What it was still to be sent may not be missing.
    """
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, leader, heir, last = chosen
    await scene.fall(stage, last)
    await scene.until_acked(stage, partition)
    before = scene.session(stage, heir)
    heir.kill()
    await scene.fall(stage, leader)
    await scene.until(stage, lambda: _leads_again(stage, partition, heir, before), COMPARED_S)
    last.power_on()
    stage.world.network.slow_ways_s[heir.host, last.host] = LATE_S
    is_in = await scene.until(stage, lambda: last.broker_id in scene.in_sync(stage, partition))
    if is_in:
        stage.count_effect("joined")
        await scene.fall(stage, heir)
        await scene.until(stage, lambda: scene.leads(stage, partition, last))
    await _back(heir, leader)


def _leads_again(stage: Stage, partition: TopicPartition, node: Node, session: int) -> bool:
    return scene.leads(stage, partition, node) and scene.session(stage, node) > session


async def promise_and_lose(stage: Stage) -> None:
    """A leader proposes one for the ISR, hears neither the API server nor that one from then on.

    What it acknowledges until it falls, the one that it proposed may have to lead with.
    """
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, leader, heir, last = chosen
    await scene.fall(stage, last)
    await scene.until_acked(stage, partition)
    last.power_on()
    if not await _cut_off_at_promise(stage, chosen):
        return
    stage.count_effect("cut off at a promise")
    await scene.until_acked(stage, partition, within_s=4.0)
    await scene.fall(stage, leader, heir)
    stage.world.network.heal()
    await scene.until(stage, lambda: scene.leads(stage, partition, last))
    await _back(heir, leader)


async def _cut_off_at_promise(stage: Stage, chosen: Cast) -> bool:
    """Cut `leader` off as soon as it proposes an ISR with `last`; whether it did in time."""
    partition, leader, heir, last = chosen
    listeners, made = stage.world.store.on_change, asyncio.Event()

    def changed(change: Change) -> None:
        name = f"{CLUSTER}-{leader.broker_id}"
        if change.kind is not kinds.BROKERS or change.object["metadata"]["name"] != name:
            return
        for one in Broker.from_manifest(change.object).status.proposals:
            is_this = one.topic_id.value == partition.topic_id.bytes
            if is_this and one.partition == partition.number and _names(one.isr, last):
                scene.cut_api(stage, leader)
                scene.cut(stage, last, leader, heir)
                made.set()

    listeners.append(changed)
    try:
        async with asyncio.timeout(scene.PATIENCE_S):
            await made.wait()
    except TimeoutError:
        return False
    finally:
        listeners.remove(changed)
    return True


def _names(isr: object, node: Node) -> bool:
    return isinstance(isr, tuple) and any(one.broker_id == node.broker_id for one in isr)


async def fall_behind(stage: Stage) -> None:
    """One is out of the ISR, alive and behind, as the leader falls."""
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, leader, heir, last = chosen
    before = scene.session(stage, last)
    await scene.fall(stage, last)
    await scene.until_acked(stage, partition)
    last.power_on()
    scene.cut(stage, last, leader, heir)
    await scene.until(stage, lambda: scene.session(stage, last) > before)
    await scene.fall(stage, leader)
    await asyncio.sleep(SETTLED_S)
    stage.world.network.heal()
    await _back(leader)


async def show_and_lose(stage: Stage) -> None:
    """Only one follower gets what its leader takes, and both fall: the one without it leads."""
    if (chosen := await scene.cast(stage, _is_read_at_its_heir)) is None:
        return
    partition, leader, heir, last = chosen
    scene.cut(stage, last, leader, heir)
    await asyncio.sleep(stage.chance.uniform(2.0, 4.0))
    await scene.fall(stage, leader, heir)
    stage.world.network.heal()
    await scene.until(stage, lambda: scene.leads(stage, partition, last))
    await _back(leader, heir)


def _is_read_at_its_heir(chosen: Cast) -> bool:
    """Consumers are in the racks of the first two brokers."""
    return chosen.heir.broker_id < 3


async def acknowledge_and_lose(stage: Stage) -> None:
    """A leader answers a producer, and what it had not sent to other brokers by then is gone."""
    nodes, network = stage.world.nodes, stage.world.network
    hosts = [one.host for one in nodes.values()]
    network.slow_ways_s |= {(one, other): LATE_S / 4 for one in hosts for other in hosts}
    await asyncio.sleep(stage.chance.uniform(0.5, 2.0))
    label = await scene.until_acked(stage)
    leaders = [node for node in nodes.values() if _leads_label(stage, label, node)]
    for node in leaders:
        scene.cut(stage, node, *(one for one in nodes.values() if one is not node))
    await scene.fall(stage, *leaders)
    network.slow_ways_s.clear()
    await asyncio.sleep(SETTLED_S)
    await _back(*leaders)


def _leads_label(stage: Stage, label: str, node: Node) -> bool:
    return any(scene.leads(stage, one, node) for one in stage.world.written if str(one) == label)


async def depose_and_restore(stage: Stage) -> None:
    """Only clients hear a leader, until it is deposed; as it is back in sync it has to lead."""
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, leader, heir, last = chosen
    scene.cut_api(stage, leader)
    scene.cut(stage, leader, heir, last)
    await scene.until(stage, lambda: not scene.leads(stage, partition, leader))
    stage.world.network.heal()
    before = scene.session(stage, leader)
    await scene.until(
        stage, lambda: scene.in_sync(stage, partition).get(int(leader.broker_id), 0) > before
    )
    stage.count_effect("deposed and back")
    await scene.fall(stage, heir)
    if scene.leads(stage, partition, last):
        await scene.fall(stage, last)
    await asyncio.sleep(SETTLED_S)
    await _back(heir, last)


async def go_back_and_restart(stage: Stage) -> None:
    """Etcd goes back to before a broker's session, and that broker restarts meanwhile.

    Producers ask for ids before and after.
    """
    store, server = stage.world.store, stage.world.server
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, node = chosen.partition, chosen.last
    copy, before = store.backup(), scene.session(stage, node)
    node.kill()
    await scene.until(
        stage, lambda: scene.in_sync(stage, partition).get(int(node.broker_id), 0) > before
    )
    _start_producers(stage, partition)
    await asyncio.sleep(SETTLED_S)
    server.stop_watches()
    server.go_away()
    node.kill()
    await asyncio.sleep(0.2)
    store.restore(copy, bump=0)
    stage.world.trace_of_decisions.restored()
    server.is_away = False
    stage.count_effect("etcd went back")
    await scene.until(stage, lambda: scene.session(stage, node) > before)
    _start_producers(stage, partition)


def _start_producers(stage: Stage, partition: TopicPartition) -> None:
    for _ in range(NEW_PRODUCERS):
        stage.world.start_producer([partition], -1, stage.mix.pause_s, stage.mix.habits)


async def tear(stage: Stage) -> None:
    """Power goes while much is written and nothing is synced; and again, as soon as it serves."""
    world, node, chance = stage.world, stage.node(), stage.chance
    for _ in range(HASTY_PRODUCERS):
        # They do not wait until what they sent before is synced; each batch is of many sectors.
        partitions, habits = list(world.written), stage.mix.habits
        world.start_producer(partitions, 1, HASTE_S, habits, "-" * SECTOR_BYTES)
    for _ in range(WRITES):
        before = scene.session(stage, node)
        node.disks.slow_s = 10.0
        await asyncio.sleep(chance.uniform(1.0, 3.0))
        if node.has_power:
            node.cut_power()
        node.disks.slow_s = 0.0
        await asyncio.sleep(0.1)
        node.power_on()
        await _admitted_after(stage, node, before)


async def _admitted_after(stage: Stage, node: Node, before: int) -> None:
    await scene.until(stage, lambda: scene.session(stage, node) > before)


async def outlive_and_lose(stage: Stage) -> None:
    """A leader that is left alone falls, and of the others one returns, for longer than a minute.

    What the leader took alone may not be acknowledged.
    """
    if (chosen := await scene.cast(stage)) is None:
        return
    partition, leader, heir, last = chosen
    await scene.fall(stage, last)
    await scene.until_acked(stage, partition)
    await scene.fall(stage, heir)
    await scene.until_acked(stage, partition, within_s=4.0)
    await scene.fall(stage, leader)
    heir.power_on()
    await scene.until(stage, lambda: scene.leads(stage, partition, heir), COMPARED_S)
    await scene.until_acked(stage, partition, within_s=4.0)
    await _back(leader, last)


async def _back(*nodes: Node) -> None:
    await asyncio.sleep(SETTLED_S)
    for one in nodes:
        one.power_on()
    await asyncio.sleep(SETTLED_S)


ACTS: Final[dict[str, Act]] = {
    "joined and lost": scene.alone(join_and_lose),
    "promised and lost": scene.alone(promise_and_lose),
    "behind at an election": scene.alone(fall_behind),
    "shown and lost": scene.alone(show_and_lose),
    "lost at an acknowledgement": scene.alone(acknowledge_and_lose),
    "deposed and to lead": scene.alone(depose_and_restore),
    "back in time": scene.alone(go_back_and_restart),
    "torn again and again": scene.alone(tear),
    "alone and lost": scene.alone(outlive_and_lose),
}
