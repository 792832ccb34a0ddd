"""Faults of transactional producers and of their coordinators; only seeds with transactions have
them."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from math import inf
from typing import Final

from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_core.topic_name import TRANSACTION_STATE
from e2e.sim.faults import groups, scene
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.roles import ACTING, MEMBER
from e2e.sim.transactions.crowd import ProducerInstance, Transactors
from e2e.sim.transactions.history import Transaction

POLL_S: Final = 0.01
SHORT_POLL_S: Final = 0.001
PATIENCE_S: Final = 15.0

TransactorAct = Callable[[Stage, Transactors, ProducerInstance], Awaitable[None]]


def _of_a_transactor(act: TransactorAct) -> Act:
    """A fault that applies `act` to the process of a random transactional id."""

    @wraps(act)
    async def acting(stage: Stage) -> None:
        transactors = stage.transactors
        if transactors is not None:
            stage.world.hits[ACTING.get(), MEMBER] += 1
            await act(stage, transactors, transactors.somebody())

    return acting


@_of_a_transactor
async def kill_transactor(
    stage: Stage, transactors: Transactors, instance: ProducerInstance
) -> None:
    """Kill a producer; the next one starts before or after its transaction times out."""
    transactors.kill(instance)
    await asyncio.sleep(stage.chance.uniform(0.0, 2.0 * transactors.habits.timeout_s))
    transactors.restart(instance)


@_of_a_transactor
async def freeze_transactor(
    stage: Stage, transactors: Transactors, instance: ProducerInstance
) -> None:
    """Pause a producer, sometimes until its transaction has timed out; it continues where it
    was."""
    process = instance.process
    if process is not None and process.is_alive:
        process.is_paused = True
        await asyncio.sleep(stage.chance.uniform(0.2, 2.0 * transactors.habits.timeout_s))
        if process.is_paused:
            stage.world.loop.resume(process)


@_of_a_transactor
async def replace_transactor(
    stage: Stage, transactors: Transactors, instance: ProducerInstance
) -> None:
    """Start another process of a transactional id while one runs, or while that is paused: it
    fences the first one, which then continues."""
    process = instance.process
    pauses = stage.chance.random() < 0.5
    if pauses and process is not None and process.is_alive:
        process.is_paused = True
        await asyncio.sleep(stage.chance.uniform(0.0, 1.0))
    transactors.launch(instance)
    if process is not None and process.is_paused:
        await asyncio.sleep(stage.chance.uniform(0.0, 4.0))
        if process.is_paused:
            stage.world.loop.resume(process)


@_of_a_transactor
async def cut_transactor(
    stage: Stage, transactors: Transactors, instance: ProducerInstance
) -> None:
    """Cut the network between a producer and some brokers, in one or both directions."""
    if instance.process is None:
        return
    network, host = stage.world.network, instance.process.host
    nodes = list(stage.world.nodes.values())
    to_it, from_it = stage.chance.choice(((True, True), (True, False), (False, True)))
    for node in stage.chance.sample(nodes, stage.chance.randint(1, len(nodes))):
        if to_it:
            network.cut(node.host, host)
        if from_it:
            network.cut(host, node.host)
    await asyncio.sleep(stage.chance.uniform(0.5, transactors.habits.timeout_s))
    network.heal()


@_of_a_transactor
async def delay_requests(
    stage: Stage, transactors: Transactors, instance: ProducerInstance
) -> None:
    """What a producer sends to some brokers within a moment arrives many seconds later: after the
    producer has sent it again, and after what it sends next."""
    if instance.process is None:
        return
    hosts = [one.host for one in stage.world.nodes.values()]
    chosen = stage.chance.sample(hosts, stage.chance.randint(1, len(hosts)))
    await _delay(stage, [(instance.process.host, host) for host in chosen])


async def delay_coordinator(stage: Stage) -> None:
    """What a coordinator sends to another broker within a moment, or gets from it, arrives many
    seconds later: markers, or answers about transactions that have ended meanwhile."""
    node = groups.coordinator(stage, TRANSACTION_STATE)
    others = [one.host for one in stage.world.nodes.values() if one is not node]
    if node is not None and others:
        other = stage.chance.choice(others)
        is_to_it = stage.chance.random() < 0.5
        await _delay(stage, [(other, node.host) if is_to_it else (node.host, other)])


async def _delay(stage: Stage, ways: list[tuple[str, str]]) -> None:
    """Delay for a moment what is sent on these ways (source, target)."""
    slow, by_s = stage.world.network.slow_ways_s, stage.chance.uniform(2.0, 12.0)
    slow.update(dict.fromkeys(ways, by_s))
    await asyncio.sleep(stage.chance.uniform(0.02, 0.6))
    for one in ways:
        slow.pop(one, None)


async def slow_connection(stage: Stage) -> None:
    """What a coordinator sends to a broker on one connection is late, and overtaken on others.

    A marker may overtake an answer about its transaction, and the next transaction a marker.
    """
    node = groups.coordinator(stage, TRANSACTION_STATE)
    if node is None:
        return
    chance, network = stage.chance, stage.world.network
    others = [one.host for one in stage.world.nodes.values() if one is not node]
    if ends := network.ends_at(node.host, others):
        slow = chance.choice(ends)
        network.slow_ends_s[slow] = chance.uniform(0.1, 3.0)
        await asyncio.sleep(chance.uniform(0.5, 6.0))
        network.slow_ends_s.pop(slow, None)


async def leave_alone(stage: Stage) -> None:
    """All brokers but a coordinator end: it has too few replicas, and refuses to store anything. It
    continues when one of them is back."""
    node = groups.coordinator(stage, TRANSACTION_STATE)
    if node is None:
        return
    others = [one for one in stage.world.nodes.values() if one is not node and one.has_power]
    await scene.take_down(stage, *others)
    await asyncio.sleep(stage.chance.uniform(2.0, 12.0))
    for one in others:
        one.power_on()


async def cut_from_groups(stage: Stage) -> None:
    """Cut the network between a coordinator of transactions and one of groups: a transaction can be
    decided, and its marker does not arrive."""
    ours, theirs = groups.coordinator(stage, TRANSACTION_STATE), groups.coordinator(stage)
    if ours is None or theirs is None or ours is theirs:
        return
    network = stage.world.network
    network.cut(ours.host, theirs.host)
    network.cut(theirs.host, ours.host)
    await asyncio.sleep(stage.chance.uniform(0.5, 20.0))
    network.heal()


async def hit_when_decided(stage: Stage) -> None:
    """End the coordinator, or a random broker, when a transaction is decided and its markers are
    not written."""
    waited_s = 0.0
    while not any(_has_decided(node) for node in stage.world.nodes.values()):
        if waited_s >= PATIENCE_S:
            return
        await asyncio.sleep(SHORT_POLL_S)
        waited_s += SHORT_POLL_S
    node = next(one for one in stage.world.nodes.values() if _has_decided(one))
    if stage.chance.random() < 0.3:
        node = stage.node()
    else:
        stage.world.count_hit(node)
    stage.count_effect("hit when a transaction was decided")
    stage.chance.choice((node.kill, node.cut_power, node.pause))()
    await asyncio.sleep(stage.chance.uniform(0.5, 12.0))
    node.resume()
    node.power_on()


def _has_decided(node: Node) -> bool:
    """Whether a transaction is decided at this broker, and has no marker in some partition."""
    coordinator: TransactionCoordinator | None = getattr(node.broker, "_transactions", None)
    return coordinator is not None and any(shard.unwritten_markers for shard in coordinator)


async def hit_at_end(stage: Stage) -> None:
    """End the coordinator, or a random broker, while a transaction is being ended."""
    if stage.transactors is None:
        return
    history = stage.transactors.history
    waited_s, count = 0.0, len(history.transactions)
    while waited_s < PATIENCE_S:
        ending = [one for one in history.transactions[count:] if _is_ending(one)]
        if ending:
            break
        await asyncio.sleep(POLL_S)
        waited_s += POLL_S
    else:
        return
    await asyncio.sleep(stage.chance.choice((0.0, 0.001, 0.003, 0.006, 0.02)))
    is_of_coordinator = stage.chance.random() < 0.6
    node = groups.coordinator(stage, TRANSACTION_STATE) if is_of_coordinator else stage.node()
    if node is not None:
        stage.count_effect("hit while a transaction ended")
        stage.chance.choice((node.kill, node.cut_power, node.pause))()
        await asyncio.sleep(stage.chance.uniform(0.5, 8.0))
        node.resume()
        node.power_on()


def _is_ending(one: Transaction) -> bool:
    """Whether the end of this transaction was asked for, without an answer so far."""
    return min(one.commit_asked_s, one.abort_asked_s) < inf == one.ended_s


ACTS: Final[dict[str, Act]] = {
    "transactor killed": kill_transactor,
    "transactor frozen": freeze_transactor,
    "transactor replaced": replace_transactor,
    "transactor cut off": cut_transactor,
    "transactor's requests late": delay_requests,
    "transaction hit at its end": hit_at_end,
    "transaction hit when decided": hit_when_decided,
    "transactions' coordinator late": delay_coordinator,
    "transactions' coordinator cut from groups'": cut_from_groups,
    "transactions' coordinator killed": partial(groups.kill_coordinator, topic=TRANSACTION_STATE),
    "transactions' coordinator frozen": partial(groups.freeze_coordinator, topic=TRANSACTION_STATE),
    "transactions' coordinator's power cut": partial(
        groups.cut_power_of_coordinator, topic=TRANSACTION_STATE
    ),
    "transactions' coordinator moved": partial(groups.move_coordinator, topic=TRANSACTION_STATE),
    "transactions' coordinator cut off": partial(groups.cut_coordinator, topic=TRANSACTION_STATE),
    "transactions' coordinator left alone": leave_alone,
    "transactions' connection slow": slow_connection,
}
