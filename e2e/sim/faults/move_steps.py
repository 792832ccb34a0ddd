"""A move of replicas is hit exactly at one of its steps: by a fault, a cancellation, or a restore.

`moves` begins moves at random times, so that faults hit them anywhere. Here a partition's entry in
its map is watched. As soon as it shows the chosen step, or some milliseconds later, the blow falls.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.topic_name import is_internal
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.api_store import Backup
from e2e.sim.faults import moves, restores, scene
from e2e.sim.faults.admins import as_client
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MOST_BROKERS
from e2e.sim.kubelet import NAMESPACE, Node
from e2e.sim.maps import States, states_in
from e2e.sim.wire import TopicPartition

BEGUN_S: Final = 10.0
STEP_S: Final = 20.0
SHORT_S: Final = (0.3, 2.0, 6.0, 12.0)
"""Choices for how long a broker is away: shorter and longer than its Lease lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move that was asked for, of one partition that is watched."""

    partition: TopicPartition
    before: PartitionState
    """The partition's entry before the move."""
    take_back: Callable[[], None]
    """Asks for what was there before."""

    def new(self, state: PartitionState) -> list[int]:
        """The brokers that get a replica by the move, or got one."""
        return sorted({*map(int, state.replicas)} - {*map(int, self.before.replicas)})

    def old(self, state: PartitionState) -> list[int]:
        """The brokers that lose their replica by the move, or lost it."""
        return sorted({*map(int, state.removing), *(int(one.broker) for one in state.leftovers)})


Step = Callable[[Move, PartitionState], bool]
"""Whether a partition's entry shows that the move has come so far."""


def _is_begun(_move: Move, state: PartitionState) -> bool:
    return state.is_moving


def _has_joined(move: Move, state: PartitionState) -> bool:
    return any(int(one.broker_id) in move.new(state) for one in state.isr)


def _is_switched(move: Move, state: PartitionState) -> bool:
    return not state.is_moving and state.replicas != move.before.replicas


def _is_given_up(move: Move, state: PartitionState) -> bool:
    return _is_switched(move, state) and any(
        one.removable_since is not None for one in state.leftovers
    )


def _is_over(move: Move, state: PartitionState) -> bool:
    return _is_switched(move, state) and not state.leftovers


STEPS: Final[dict[str, Step]] = {
    "begun": _is_begun,
    "joined": _has_joined,
    "switched": _is_switched,
    "given up": _is_given_up,
    "over": _is_over,
}


# -- beginnings: each asks for a move, and returns None if none is possible now


def _reassign(stage: Stage, chosen: tuple[TopicPartition, PartitionState] | None = None) -> Move:
    """Let a tool move one partition; with its answer comes nothing that the act waits for."""
    partition, state = chosen or stage.chance.choice(users_partitions(stage))
    alter(stage, partition, _another_target(stage, state))

    def cancel() -> None:
        alter(stage, partition, None)

    return Move(partition=partition, before=state, take_back=cancel)


def _add_replica(stage: Stage) -> Move | None:
    """Ask for one more replica of a topic, or for one less if it has more than at the beginning."""
    partition, state = stage.chance.choice(users_partitions(stage))
    topic = stage.world.store.peek(kinds.TOPICS, NAMESPACE, partition.topic)
    if topic is None or "replicas" not in topic["spec"]:
        return None
    count = topic["spec"]["replicas"]
    other = count - 1 if count > stage.mix.replicas else count + 1
    if other > min(len(serving(stage)), moves.broker_count(stage)):
        return None
    moves.set_replicas(stage, partition.topic, other)

    def set_back() -> None:
        is_there = stage.world.store.peek(kinds.TOPICS, NAMESPACE, partition.topic) is not None
        if is_there and count <= moves.broker_count(stage):
            moves.set_replicas(stage, partition.topic, count)

    return Move(partition=partition, before=state, take_back=set_back)


def _remove_broker(stage: Stage) -> Move | None:
    """Ask for one broker less, which moves a partition off the broker with the highest id."""
    last = serving(stage)[-1]
    on_last = [one for one in users_partitions(stage) if last in one[1].replicas]
    if not on_last or not moves.can_remove(stage):
        return None
    partition, state = stage.chance.choice(on_last)
    count = moves.broker_count(stage)
    moves.scale(stage, count - 1)

    def take_back() -> None:
        moves.scale(stage, count)

    return Move(partition=partition, before=state, take_back=take_back)


async def _add_broker(stage: Stage) -> Move | None:
    """Ask for one broker more, and move a partition to it as soon as it serves."""
    count = moves.broker_count(stage)
    if count >= MOST_BROKERS:
        return None
    before = set(serving(stage))
    moves.scale(stage, count + 1)
    if not await scene.until(stage, lambda: bool(set(serving(stage)) - before)):
        return None
    (new, *_) = sorted(set(serving(stage)) - before)
    partition, state = stage.chance.choice(users_partitions(stage))
    target = [new, *map(int, state.target)][: len(state.target)]
    alter(stage, partition, target)

    def take_back() -> None:
        if moves.can_remove(stage):
            moves.scale(stage, moves.broker_count(stage) - 1)

    return Move(partition=partition, before=state, take_back=take_back)


def _place(stage: Stage) -> Move | None:
    """Let a Topic place one of its partitions, in addition to others that it places."""
    partition, state = stage.chance.choice(users_partitions(stage))
    topic = stage.world.store.peek(kinds.TOPICS, NAMESPACE, partition.topic)
    if topic is None:
        return None
    before = topic["spec"].get("assignments")
    entry = {"partition": partition.number, "replicas": _another_target(stage, state)}
    others = [one for one in before or () if one["partition"] != partition.number]
    place_all(stage, partition.topic, [*others, entry])

    def take_back() -> None:
        if stage.world.store.peek(kinds.TOPICS, NAMESPACE, partition.topic) is not None:
            place_all(stage, partition.topic, before)

    return Move(partition=partition, before=state, take_back=take_back)


async def _begin(stage: Stage, kinds_of_moves: Sequence[str]) -> Move | None:
    """Ask for a move of one of these kinds; None if it is not possible now."""
    if not users_partitions(stage) or not serving(stage):
        return None
    stage.world.has_changed_brokers = True
    match stage.chance.choice(kinds_of_moves):
        case "reassigned":
            return _reassign(stage)
        case "more or fewer":
            return _add_replica(stage)
        case "broker removed":
            return _remove_broker(stage)
        case "placed":
            return _place(stage)
        case _:
            return await _add_broker(stage)


# -- blows


async def _kill_operator(stage: Stage, _move: Move, _state: PartitionState) -> None:
    for one in stage.world.operators:
        if one.is_active:
            stage.world.count_hit(one)
            one.kill()


async def _kill_leader(stage: Stage, _move: Move, state: PartitionState) -> None:
    if (node := _leader(stage, state)) is not None:
        node.kill()


async def _cut_off_leader(stage: Stage, _move: Move, state: PartitionState) -> None:
    """Clients and followers reach the leader, but it learns nothing of its deposition."""
    if (node := _leader(stage, state)) is not None:
        scene.cut_api(stage, node)
        await asyncio.sleep(stage.chance.choice(SHORT_S))
        stage.world.network.heal()


async def _pause_leader(stage: Stage, _move: Move, state: PartitionState) -> None:
    if (node := _leader(stage, state)) is not None:
        node.pause()
        await asyncio.sleep(stage.chance.choice(SHORT_S))
        node.resume()


async def _lose_new(stage: Stage, move: Move, state: PartitionState) -> None:
    await _take_away(stage, move.new(state))


async def _lose_old(stage: Stage, move: Move, state: PartitionState) -> None:
    await _take_away(stage, move.old(state))


async def _lose_volume(stage: Stage, move: Move, state: PartitionState) -> None:
    """The volume of a broker that gets or loses a replica is lost, if no record is only there.

    All volumes of a run that are lost are of the same broker, as in `volumes`.
    """
    world = stage.world
    node = world.nodes[world.bad_disk]
    is_part = int(node.broker_id) in {*move.new(state), *move.old(state)}
    if is_part and stage.mix.replicas > 1 and scene.is_dispensable(stage, node):
        world.count_hit(node)
        node.disks.error_count += 1
        node.lose_volume()


async def _cut_all_power(stage: Stage, _move: Move, _state: PartitionState) -> None:
    nodes = [one for one in stage.world.nodes.values() if one.has_power]
    for one in nodes:
        stage.world.count_hit(one)
        one.cut_power()
    await asyncio.sleep(stage.chance.choice(SHORT_S))
    for one in nodes:
        one.power_on()


async def _cancel(_stage: Stage, move: Move, _state: PartitionState) -> None:
    move.take_back()


async def _replace(stage: Stage, move: Move, state: PartitionState) -> None:
    """Another target in place of the present one; often with brokers that are to lose theirs."""
    _reassign(stage, (move.partition, state))


BLOWS: Final[dict[str, Callable[[Stage, Move, PartitionState], Coroutine[Any, Any, None]]]] = {
    "operator killed": _kill_operator,
    "leader killed": _kill_leader,
    "leader cut off": _cut_off_leader,
    "leader paused": _pause_leader,
    "new replica's broker lost": _lose_new,
    "old replica's broker lost": _lose_old,
    "volume lost": _lose_volume,
    "power cut of all": _cut_all_power,
    "cancelled": _cancel,
    "replaced": _replace,
}


# -- acts


async def hit(stage: Stage) -> None:
    """Begin a move, and strike at one of its steps; maybe strike a second time at a later one."""
    names: tuple[str, ...] = ("reassigned",)
    if not may_be_restored(stage):
        names = ("reassigned", "reassigned", "more or fewer", "broker removed", "broker added")
        if stage.world.upkeep_watch is not None:
            names += ("placed", "placed")
    move = await _begin(stage, names)
    if move is None:
        return
    for _ in range(stage.chance.choice((1, 1, 2))):
        state = await _at_a_step(stage, move)
        if state is None:
            return
        blow = stage.chance.choice(tuple(BLOWS))
        stage.count_effect(f"move hit: {blow}")
        await BLOWS[blow](stage, move, state)


async def restore(stage: Stage) -> None:
    """Etcd goes back to before a move, or to an earlier step of it.

    The specs go back with it. No broker is added: after the restore nobody would want it.
    """
    copy: Backup = stage.world.store.backup()
    move = await _begin(stage, ("reassigned", "reassigned", "more or fewer", "broker removed"))
    if move is None:
        return
    if stage.chance.random() < 0.5:
        if await _at_a_step(stage, move) is None:
            return
        copy = stage.world.store.backup()
    if await _at_a_step(stage, move) is None:
        return
    await asyncio.sleep(stage.chance.choice((0.0, 0.0, 1.0, 8.0)))
    stage.count_effect("move hit: etcd restored")
    await restores.go_back(stage, copy)


async def _at_a_step(stage: Stage, move: Move) -> PartitionState | None:
    """Wait until the move has come to a random step, or just beyond it; returns the partition's
    entry then. None if the topic was deleted."""
    step = STEPS[stage.chance.choice(tuple(STEPS))]

    def is_reached() -> bool:
        state = scene.state_of(stage, move.partition)
        return state is None or step(move, state)

    await scene.until(stage, is_reached, STEP_S)
    await asyncio.sleep(stage.chance.choice((0.0, 0.0, 0.02, 0.1, 0.5)) * stage.chance.random())
    return scene.state_of(stage, move.partition)


def may_be_restored(stage: Stage) -> bool:
    """Whether etcd may be restored in this run: then specs that users change may go back."""
    return any(stage.mix.weights.get(name) for name in (*restores.ACTS, *RESTORING))


# -- helpers


def users_partitions(stage: Stage) -> States:
    """All partitions of users' topics, with their entries in the maps."""
    return [one for one in states_in(stage.world.store) if not is_internal(one[0].topic)]


def serving(stage: Stage) -> list[int]:
    """The ids of the brokers that take replicas: admitted, not fenced, not being removed."""
    specs = [one["spec"] for one in stage.world.store.all_of(kinds.BROKERS)]
    return sorted(
        spec["brokerId"]
        for spec in specs
        if spec.get("session")
        and not spec.get("fenced")
        and not spec.get("retired")
        and spec.get("intent") != BrokerIntent.REMOVE
    )


def _another_target(stage: Stage, state: PartitionState) -> list[int]:
    """As many serving brokers as the partition has replicas, others than it has if possible."""
    able, count = serving(stage), len(state.target)
    for _ in range(5):
        target = stage.chance.sample(able, min(count, len(able)))
        if set(target) != set(map(int, state.target)):
            break
    return target


def alter(stage: Stage, partition: TopicPartition, target: list[int] | None) -> None:
    """Send an AlterPartitionReassignments as a new client, without waiting for the answer."""

    async def work(wire: Any, chance: random.Random) -> None:
        await moves.alter(stage, wire, chance, {partition: target})

    stage.world.keep(as_client(stage, work))


def place_all(stage: Stage, topic: str, entries: list[dict[str, Any]] | None) -> None:
    """Set `spec.assignments` of a Topic; None removes it."""
    patch = {"spec": {"assignments": entries}}
    stage.world.store.patch(kinds.TOPICS, ObjectKey(NAMESPACE, topic), patch)


def _leader(stage: Stage, state: PartitionState) -> Node | None:
    """The node of the partition's leader, counted as hit; None if it has no leader."""
    if state.leader is None:
        return None
    node = stage.world.nodes[int(state.leader.broker_id)]
    stage.world.count_hit(node)
    return node


async def _take_away(stage: Stage, brokers: Sequence[int]) -> None:
    """Kill one of these brokers, or cut its power for a while."""
    nodes = [stage.world.nodes[one] for one in brokers if stage.world.nodes[one].has_power]
    if not nodes:
        return
    node = stage.chance.choice(nodes)
    stage.world.count_hit(node)
    if stage.chance.random() < 0.3:
        node.kill()
        return
    node.cut_power()
    await asyncio.sleep(stage.chance.choice(SHORT_S))
    node.power_on()


RESTORING: Final[dict[str, Act]] = {"etcd restored during a move": restore}
ACTS: Final[dict[str, Act]] = {"move hit at a step": hit, **RESTORING}
