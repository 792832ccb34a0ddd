"""Sequences of faults that break a move only if one certain rule of the code is broken.

As in `directed`, each step happens at an exact moment, and only mixes of planted bugs name them.
"""

import asyncio
from typing import Final, NamedTuple

from chiplog_core.model.broker import Broker
from chiplog_kube import kinds
from e2e.sim.faults import move_steps, moves, scene, users
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.move_watch import view_of
from e2e.sim.wire import TopicPartition

AGAIN_S: Final = 4.0
LATE_S: Final = 0.5
"""How long a broker learns nothing: shorter than its Lease lasts."""
TRIES: Final = 3
LEAVING_S: Final = 7.0
"""Longer than the checker `given_to_leaving` tolerates."""


async def cancel_with_few(stage: Stage) -> None:
    """A move is cancelled while only the leader and one of the new replicas are in sync.

    The second new broker is without power, so the move cannot complete; so are the old followers.
    The cancellation must be refused, because too few replicas in sync would be left.
    """
    nodes, chosen = stage.world.nodes, _choose(stage)
    if chosen is None:
        return
    partition, leader, followers, (new, late) = chosen
    stage.world.has_changed_brokers = True
    replicas = [new, late, leader, *followers][: 1 + len(followers)]
    move_steps.alter(stage, partition, replicas)
    await scene.until(stage, lambda: late in _replicas(stage, partition))
    down = [nodes[one] for one in (late, *followers)]
    await scene.take_down(stage, *down)
    if await scene.until(stage, lambda: {*scene.in_sync(stage, partition)} == {leader, new}):
        stage.count_effect("cancelled with few in sync")
        move_steps.alter(stage, partition, None)
        await scene.until(stage, lambda: new not in _replicas(stage, partition), AGAIN_S)
    for one in down:
        one.power_on()


async def settle_and_lose(stage: Stage) -> None:
    """A leader reports that the replicas of a move know of it, and is lost at once: the report
    stays in its Broker object.

    Then its own replica moves. That its new replica knows of this move, only the next leader can
    tell; and that replica learns of it late.
    """
    world, chosen = stage.world, _choose(stage)
    if chosen is None:
        return
    partition, leader, followers, (new, late) = chosen
    world.has_changed_brokers = True
    move_steps.alter(stage, partition, [leader, new, *followers[1:]])
    if not await scene.until(stage, lambda: _has_reported(stage, leader, partition)):
        return
    world.nodes[leader].cut_power()
    world.count_hit(world.nodes[leader])
    await scene.until(stage, lambda: scene.leader_of(stage, partition) not in {None, leader})
    for _ in range(TRIES):  # the broker that is asked may be the lost one
        move_steps.alter(stage, partition, [new, late, *followers[1:]])
        if await scene.until(stage, lambda: _knows_its_replica(stage, late, partition), AGAIN_S):
            break
    scene.cut_api(stage, world.nodes[late])
    if await scene.until(stage, lambda: leader not in _replicas(stage, partition), AGAIN_S):
        stage.count_effect("settled and lost")
    await asyncio.sleep(LATE_S)
    world.network.heal()
    world.nodes[leader].power_on()
    await asyncio.sleep(AGAIN_S)


def _has_reported(stage: Stage, broker_id: int, partition: TopicPartition) -> bool:
    """Whether a broker's status says that a partition which it leads is settled."""
    found = stage.world.store.peek(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{broker_id}")
    return found is not None and any(
        one.topic_id.value == partition.topic_id.bytes and one.partition == partition.number
        for one in Broker.from_manifest(found).status.settled_partitions
    )


def _knows_its_replica(stage: Stage, broker_id: int, partition: TopicPartition) -> bool:
    """Whether a broker has applied a map in which it has a replica of the partition."""
    view = view_of(stage.world.nodes[broker_id], str(partition))
    return view is not None and broker_id in view.replicas


class _Chosen(NamedTuple):
    """A partition whose replicas are all in sync, and two brokers without a replica of it."""

    partition: TopicPartition
    leader: int
    followers: list[int]
    others: list[int]


def _choose(stage: Stage) -> _Chosen | None:
    """A random such partition; None if there is none."""
    found = []
    for partition, state in move_steps.users_partitions(stage):
        others = [one for one in move_steps.serving(stage) if one not in state.replicas]
        is_whole = len(state.isr) == len(state.replicas) and not state.is_moving
        if state.leader is not None and is_whole and len(others) >= 2:
            leader = int(state.leader.broker_id)
            followers = [int(one) for one in state.replicas if one != leader]
            found.append(_Chosen(partition, leader, followers, others[:2]))
    return stage.chance.choice(found) if found else None


async def place_during_a_removal(stage: Stage) -> None:
    """A topic is created while a broker is being removed, for long, since another one is lost.

    The topic must wait for that one, or do without it: it gets no replica on the first.
    """
    able = move_steps.serving(stage)
    if len(able) < 2 or not moves.can_remove(stage):
        return
    stage.world.has_changed_brokers = True
    lost = stage.world.nodes[able[-2]]
    await scene.take_down(stage, lost)
    count = moves.broker_count(stage)
    moves.scale(stage, count - 1)
    await asyncio.sleep(LEAVING_S)
    stage.count_effect("placed during a removal")
    await users.create_topic(stage)
    lost.power_on()
    await asyncio.sleep(LEAVING_S)
    moves.scale(stage, count)


def _replicas(stage: Stage, partition: TopicPartition) -> list[int]:
    state = scene.state_of(stage, partition)
    return [] if state is None else list(map(int, state.replicas))


ACTS: Final[dict[str, Act]] = {
    "cancelled with few": scene.exclusive(cancel_with_few),
    "settled and lost": scene.exclusive(settle_and_lose),
    "placed during a removal": scene.exclusive(place_during_a_removal),
}
