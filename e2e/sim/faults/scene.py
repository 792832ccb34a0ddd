"""Helpers for faults that happen at a certain moment: choosing brokers, waiting for conditions."""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple
from weakref import WeakSet

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionState
from chiplog_kube import kinds
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.history import Kind
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.maps import in_sync_in, states_in
from e2e.sim.wire import TopicPartition
from e2e.sim.world import World

POLL_S = 0.002
PATIENCE_S = 20.0
"""The longest wait for a condition, unless another one is given."""

_with_exclusive_act: "WeakSet[World]" = WeakSet()
"""Simulations in which an exclusive act is running."""


def exclusive(act: Act) -> Act:
    """An act that does nothing while another exclusive act is running in the same simulation."""

    @wraps(act)
    async def acting(stage: Stage) -> None:
        if stage.world in _with_exclusive_act:
            return
        _with_exclusive_act.add(stage.world)
        try:
            await act(stage)
        finally:
            _with_exclusive_act.discard(stage.world)

    return acting


class ChosenPartition(NamedTuple):
    """A partition with three in-sync replicas, and the nodes of their brokers."""

    partition: TopicPartition
    leader: Node
    first_follower: Node
    """It is elected next, if it is in sync."""
    second_follower: Node


async def choose_partition(
    stage: Stage, is_fit: Callable[[ChosenPartition], bool] = lambda _: True
) -> ChosenPartition | None:
    """Choose a random partition for which `is_fit` is true; None if there is none in time.

    It waits, because an earlier fault may not be over. Counts a hit of the partition's leader.
    """
    found: list[ChosenPartition] = []

    def are_there() -> bool:
        found[:] = [one for one in _candidates(stage) if is_fit(one)]
        return bool(found)

    if not await until(stage, are_there):
        return None
    chosen = stage.chance.choice(found)
    stage.world.count_hit(chosen.leader)
    return chosen


def _candidates(stage: Stage) -> list[ChosenPartition]:
    """All partitions with three in-sync replicas."""
    nodes, found = stage.world.nodes, []
    for partition, state in states_in(stage.world.store):
        if state.leader is None or len(state.isr) != 3 or len(state.replicas) != 3:
            continue
        followers = [nodes[one] for one in state.replicas if one != state.leader.broker_id]
        found.append(ChosenPartition(partition, nodes[state.leader.broker_id], *followers))
    return found


async def until(stage: Stage, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    """Wait until `holds` returns True; False if it does not within `within_s`.

    It is checked whenever an object of the API server changed or a record was acknowledged.
    """
    world, seen = stage.world, (-1, -1)
    until_s = world.loop.time() + within_s
    while world.loop.time() < until_s:
        now = world.store.version, world.notebook.acked
        if now != seen:
            seen = now
            if holds():
                return True
        await asyncio.sleep(POLL_S)
    return False


async def until_acked(
    stage: Stage, partition: TopicPartition | None = None, within_s: float = PATIENCE_S
) -> str:
    """Wait for the next acknowledged record, of `partition` if given.

    Returns the label of its partition, empty if there is none within `within_s`.
    """
    events = stage.world.notebook.history.events
    begin = len(events)
    labels: list[str] = []

    def is_acked() -> bool:
        labels.extend(
            one.partition
            for one in events[begin:]
            if one.kind is Kind.ACKED and (partition is None or one.partition == str(partition))
        )
        return bool(labels)

    return labels[0] if await until(stage, is_acked, within_s) else ""


async def take_down(stage: Stage, *nodes: Node) -> None:
    """Kill brokers, wait until the operator has fenced them, and cut their machines' power.

    A killed process is noticed at once, one without power only after some seconds.
    """
    for one in nodes:
        stage.world.count_hit(one)
        one.kill()
    await until(stage, lambda: all(is_fenced(stage, one) for one in nodes), 3.0)
    for one in nodes:
        if one.has_power:
            one.cut_power()


def cut(stage: Stage, one: Node, *others: Node) -> None:
    """Cut the connections between a node and the others given, in both directions."""
    for other in others:
        stage.world.network.cut(one.host, other.host)
        stage.world.network.cut(other.host, one.host)


def cut_api(stage: Stage, one: Node) -> None:
    """Cut the connection between a node and the API server, in both directions."""
    stage.world.network.cut(one.host, "api")
    stage.world.network.cut("api", one.host)


def state_of(stage: Stage, partition: TopicPartition) -> PartitionState | None:
    """The partition's present entry in its PartitionMap; None if it was deleted."""
    return dict(states_in(stage.world.store)).get(partition)


def leader_of(stage: Stage, partition: TopicPartition) -> BrokerId | None:
    state = state_of(stage, partition)
    return state.leader.broker_id if state is not None and state.leader is not None else None


def leads(stage: Stage, partition: TopicPartition, node: Node) -> bool:
    return leader_of(stage, partition) == node.broker_id


def in_sync(stage: Stage, partition: TopicPartition) -> dict[int, int]:
    """The partition's ISR: broker id -> session."""
    state = state_of(stage, partition)
    return {} if state is None else {int(one.broker_id): int(one.session) for one in state.isr}


def session(stage: Stage, node: Node) -> int:
    """The newest session of the node's broker; 0 before its first one."""
    return int(_spec(stage, node).get("session", 0))


def is_fenced(stage: Stage, node: Node) -> bool:
    return bool(_spec(stage, node).get("fenced"))


def _spec(stage: Stage, node: Node) -> dict[str, Any]:
    """The spec of the node's Broker object; empty before it exists."""
    found = stage.world.store.peek(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{node.broker_id}")
    spec: dict[str, Any] = (found or {}).get("spec", {})
    return spec


def is_dispensable(stage: Stage, node: Node) -> bool:
    """Whether every partition has another in-sync replica than the one on this node.

    Otherwise acknowledged records could be lost rightly, and only a user could decide how to go on.
    """
    return all(one - {node.broker_id} for one in in_sync_in(stage.world.store).values())
