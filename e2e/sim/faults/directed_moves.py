"""Sequences of faults that break a move only if one certain rule of the code is broken.

As in `directed`, each step happens at an exact moment, and only mixes of planted bugs name them.
"""

import asyncio
from typing import Final

from e2e.sim.faults import move_steps, moves, scene, users
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.wire import TopicPartition

AGAIN_S: Final = 4.0
LEAVING_S: Final = 7.0
"""Longer than the checker `given_to_leaving` tolerates."""


async def cancel_with_few(stage: Stage) -> None:
    """A move is cancelled while only the leader and one of the new replicas are in sync.

    The second new broker is without power, so the move cannot complete; so are the old followers.
    The cancellation must be refused, because too few replicas in sync would be left.
    """
    nodes = stage.world.nodes
    found = [
        (partition, state)
        for partition, state in move_steps.users_partitions(stage)
        if state.leader is not None and len(state.isr) == len(state.replicas)
    ]
    if not found:
        return
    partition, state = stage.chance.choice(found)
    assert state.leader is not None, "chosen so"
    others = [one for one in move_steps.serving(stage) if one not in state.replicas]
    if len(others) < 2:
        return
    stage.world.has_changed_brokers = True
    new, late = others[:2]
    leader = int(state.leader.broker_id)
    followers = [int(one) for one in state.replicas if one != leader]
    kept = [leader, *followers[1:]]
    move_steps.alter(stage, partition, [new, late, *kept][: len(state.replicas)])
    await scene.until(stage, lambda: late in _replicas(stage, partition))
    down = [nodes[one] for one in (late, *followers)]
    await scene.take_down(stage, *down)
    if await scene.until(stage, lambda: {*scene.in_sync(stage, partition)} == {leader, new}):
        stage.count_effect("cancelled with few in sync")
        move_steps.alter(stage, partition, None)
        await scene.until(stage, lambda: new not in _replicas(stage, partition), AGAIN_S)
    for one in down:
        one.power_on()


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
    "placed during a removal": scene.exclusive(place_during_a_removal),
}
