"""Sequences of faults that lose records only if one certain rule of the code is broken.

Each step happens at an exact moment; random faults would hardly ever hit several such moments in a
row. No seed draws these: the mixes of planted bugs name them.

Each of them needs a partition with three in-sync replicas. If the first and the second follower are
both in sync, the first one is elected next.
"""

import asyncio
from typing import Final

from chiplog_core.model.broker import Broker
from chiplog_kube import kinds
from e2e.sim.api_store import Change
from e2e.sim.disk import SECTOR_BYTES
from e2e.sim.faults import scene
from e2e.sim.faults.scene import ChosenPartition
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, Node
from e2e.sim.wire import TopicPartition

LATE_S: Final = 1.0
"""Delay of bytes on a slow connection: longer than a change of an ISR takes."""
SETTLED_S: Final = 3.0
COMPARED_S: Final = 110.0
"""By then a restarted ISR member leads if no other one returns: the operator waits a minute."""
WRITES: Final = 6
NEW_PRODUCERS: Final = 9
HASTY_PRODUCERS: Final = 2
HASTE_S: Final = 0.4


async def join_and_lose(stage: Stage) -> None:
    """A follower returns to a restarted leader, whose high watermark is still too low.

    As soon as the follower is in sync, that leader is lost. Acknowledged records must not be
    missing on the follower, which is elected.
    """
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    await scene.take_down(stage, second_follower)
    await scene.until_acked(stage, partition)
    before = scene.session(stage, first_follower)
    first_follower.kill()
    await scene.take_down(stage, leader)
    await scene.until(
        stage, lambda: _leads_again(stage, partition, first_follower, before), COMPARED_S
    )
    second_follower.power_on()
    stage.world.network.slow_ways_s[first_follower.host, second_follower.host] = LATE_S
    is_in = await scene.until(
        stage, lambda: second_follower.broker_id in scene.in_sync(stage, partition)
    )
    if is_in:
        stage.count_effect("joined")
        await scene.take_down(stage, first_follower)
        await scene.until(stage, lambda: scene.leads(stage, partition, second_follower))
    await _power_on_all(first_follower, leader)


def _leads_again(stage: Stage, partition: TopicPartition, node: Node, session: int) -> bool:
    """Whether the node's broker leads the partition in a newer session than the given one."""
    return scene.leads(stage, partition, node) and scene.session(stage, node) > session


async def promise_and_lose(stage: Stage) -> None:
    """A leader proposes a follower for the ISR, and is cut off from it and from the API server.

    Records that it acknowledges until it is lost must be on this follower, which may be elected.
    """
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    await scene.take_down(stage, second_follower)
    await scene.until_acked(stage, partition)
    second_follower.power_on()
    if not await _cut_off_at_promise(stage, chosen):
        return
    stage.count_effect("cut off at a promise")
    await scene.until_acked(stage, partition, within_s=4.0)
    await scene.take_down(stage, leader, first_follower)
    stage.world.network.heal()
    await scene.until(stage, lambda: scene.leads(stage, partition, second_follower))
    await _power_on_all(first_follower, leader)


async def _cut_off_at_promise(stage: Stage, chosen: ChosenPartition) -> bool:
    """Cut the leader off as soon as it proposes an ISR with the second follower.

    It is cut off from the API server, and that follower from both other brokers. Returns False if
    there is no such proposal in time.
    """
    partition, leader, first_follower, second_follower = chosen
    listeners, made = stage.world.store.on_change, asyncio.Event()

    def changed(change: Change) -> None:
        """Called for each change of an object; looks for the proposal in the leader's Broker."""
        name = f"{CLUSTER}-{leader.broker_id}"
        if change.kind is not kinds.BROKERS or change.object["metadata"]["name"] != name:
            return
        for one in Broker.from_manifest(change.object).status.proposals:
            is_this = one.topic_id.value == partition.topic_id.bytes
            if (
                is_this
                and one.partition == partition.number
                and _contains(one.isr, second_follower)
            ):
                scene.cut_api(stage, leader)
                scene.cut(stage, second_follower, leader, first_follower)
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


def _contains(isr: object, node: Node) -> bool:
    """Whether a proposed ISR, which may have any type, contains the node's broker."""
    return isinstance(isr, tuple) and any(one.broker_id == node.broker_id for one in isr)


async def fall_behind(stage: Stage) -> None:
    """The leader is lost while the second follower is alive, but behind and out of the ISR."""
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    before = scene.session(stage, second_follower)
    await scene.take_down(stage, second_follower)
    await scene.until_acked(stage, partition)
    second_follower.power_on()
    scene.cut(stage, second_follower, leader, first_follower)
    await scene.until(stage, lambda: scene.session(stage, second_follower) > before)
    await scene.take_down(stage, leader)
    await asyncio.sleep(SETTLED_S)
    stage.world.network.heal()
    await _power_on_all(leader)


async def show_and_lose(stage: Stage) -> None:
    """Only the first follower gets the leader's new records, and both are lost.

    The second follower leads without these records. A consumer that reads from the first follower
    must not have seen them.
    """
    if (chosen := await scene.choose_partition(stage, _is_first_follower_read)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    scene.cut(stage, second_follower, leader, first_follower)
    await asyncio.sleep(stage.chance.uniform(2.0, 4.0))
    await scene.take_down(stage, leader, first_follower)
    stage.world.network.heal()
    await scene.until(stage, lambda: scene.leads(stage, partition, second_follower))
    await _power_on_all(leader, first_follower)


def _is_first_follower_read(chosen: ChosenPartition) -> bool:
    """Whether a consumer reads from the first follower, and so could see records too early.

    There are two consumers, in the racks of brokers 1 and 2; each reads from a replica in its rack.
    """
    return chosen.first_follower.broker_id < 3


async def acknowledge_and_lose(stage: Stage) -> None:
    """Leaders are cut off and lost as soon as one of them acknowledges a record.

    The network between brokers is slow, so records that were acknowledged too early are lost.
    """
    nodes, network = stage.world.nodes, stage.world.network
    hosts = [one.host for one in nodes.values()]
    network.slow_ways_s |= {(one, other): LATE_S / 4 for one in hosts for other in hosts}
    await asyncio.sleep(stage.chance.uniform(0.5, 2.0))
    label = await scene.until_acked(stage)
    leaders = [node for node in nodes.values() if _leads_label(stage, label, node)]
    for node in leaders:
        scene.cut(stage, node, *(one for one in nodes.values() if one is not node))
    await scene.take_down(stage, *leaders)
    network.slow_ways_s.clear()
    await asyncio.sleep(SETTLED_S)
    await _power_on_all(*leaders)


def _leads_label(stage: Stage, label: str, node: Node) -> bool:
    """Whether the node's broker leads the partition with this label."""
    partitions = stage.world.used_partitions
    return any(scene.leads(stage, one, node) for one in partitions if str(one) == label)


async def depose_and_restore(stage: Stage) -> None:
    """A leader that only clients reach is deposed; when it is in sync again, it has to lead."""
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    scene.cut_api(stage, leader)
    scene.cut(stage, leader, first_follower, second_follower)
    await scene.until(stage, lambda: not scene.leads(stage, partition, leader))
    stage.world.network.heal()
    before = scene.session(stage, leader)
    await scene.until(
        stage, lambda: scene.in_sync(stage, partition).get(int(leader.broker_id), 0) > before
    )
    stage.count_effect("deposed and back")
    await scene.take_down(stage, first_follower)
    if scene.leads(stage, partition, second_follower):
        await scene.take_down(stage, second_follower)
    await asyncio.sleep(SETTLED_S)
    await _power_on_all(first_follower, second_follower)


async def go_back_and_restart(stage: Stage) -> None:
    """Etcd is restored to a time before a broker's session, while that broker restarts.

    Producers get their ids from it before and after: the session number must not be used again,
    because producer ids contain it.
    """
    store, server = stage.world.store, stage.world.server
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, node = chosen.partition, chosen.second_follower
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
    stage.world.restore(copy)
    server.is_away = False
    stage.count_effect("etcd went back")
    await scene.until(stage, lambda: scene.session(stage, node) > before)
    _start_producers(stage, partition)


def _start_producers(stage: Stage, partition: TopicPartition) -> None:
    """Start several idempotent producers, so that the broker in question gives some their id."""
    for _ in range(NEW_PRODUCERS):
        stage.world.start_producer([partition], -1, stage.mix.pause_s, stage.mix.habits)


async def tear(stage: Stage) -> None:
    """Cut a broker's power while much is written and nothing is synced, several times in a row."""
    world, node, chance = stage.world, stage.node(), stage.chance
    for _ in range(HASTY_PRODUCERS):
        # With acks=1 they do not wait for a sync; the padding makes each batch several sectors
        # long, so that a power cut can tear it.
        partitions, habits = list(world.used_partitions), stage.mix.habits
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
        await _until_new_session(stage, node, before)


async def _until_new_session(stage: Stage, node: Node, before: int) -> None:
    await scene.until(stage, lambda: scene.session(stage, node) > before)


async def outlive_and_lose(stage: Stage) -> None:
    """Both followers are lost, then the leader; one follower returns and leads after a minute.

    Records that the leader took without followers must not have been acknowledged.
    """
    if (chosen := await scene.choose_partition(stage)) is None:
        return
    partition, leader, first_follower, second_follower = chosen
    await scene.take_down(stage, second_follower)
    await scene.until_acked(stage, partition)
    await scene.take_down(stage, first_follower)
    await scene.until_acked(stage, partition, within_s=4.0)
    await scene.take_down(stage, leader)
    first_follower.power_on()
    await scene.until(stage, lambda: scene.leads(stage, partition, first_follower), COMPARED_S)
    await scene.until_acked(stage, partition, within_s=4.0)
    await _power_on_all(leader, second_follower)


async def _power_on_all(*nodes: Node) -> None:
    """Power nodes on, with some seconds before and after it."""
    await asyncio.sleep(SETTLED_S)
    for one in nodes:
        one.power_on()
    await asyncio.sleep(SETTLED_S)


ACTS: Final[dict[str, Act]] = {
    "joined and lost": scene.exclusive(join_and_lose),
    "promised and lost": scene.exclusive(promise_and_lose),
    "behind at an election": scene.exclusive(fall_behind),
    "shown and lost": scene.exclusive(show_and_lose),
    "lost at an acknowledgement": scene.exclusive(acknowledge_and_lose),
    "deposed and to lead": scene.exclusive(depose_and_restore),
    "back in time": scene.exclusive(go_back_and_restart),
    "torn again and again": scene.exclusive(tear),
    "alone and lost": scene.exclusive(outlive_and_lose),
}
