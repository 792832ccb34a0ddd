"""What faults that act at a certain moment share: whom they hit, and how they wait for it."""

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
from e2e.sim.maps import states_in
from e2e.sim.wire import TopicPartition
from e2e.sim.world import World

POLL_S = 0.002
PATIENCE_S = 20.0

_taken: "WeakSet[World]" = WeakSet()


def alone(act: Act) -> Act:
    """It does nothing while another such act has not come to its end."""

    @wraps(act)
    async def acting(stage: Stage) -> None:
        if stage.world in _taken:
            return
        _taken.add(stage.world)
        try:
            await act(stage)
        finally:
            _taken.discard(stage.world)

    return acting


class Cast(NamedTuple):
    """A partition with three replicas, all in sync."""

    partition: TopicPartition
    leader: Node
    heir: Node
    """Elected next, where it is in sync."""
    last: Node


async def cast(stage: Stage, is_fit: Callable[[Cast], bool] = lambda _: True) -> Cast | None:
    """Any that is fit; waited for, because something else may have gone wrong just before."""
    found: list[Cast] = []

    def are_there() -> bool:
        found[:] = [one for one in _casts(stage) if is_fit(one)]
        return bool(found)

    if not await until(stage, are_there):
        return None
    chosen = stage.chance.choice(found)
    stage.world.hit(chosen.leader)
    return chosen


def _casts(stage: Stage) -> list[Cast]:
    nodes, found = stage.world.nodes, []
    for partition, state in states_in(stage.world.store):
        if state.leader is None or len(state.isr) != 3 or len(state.replicas) != 3:
            continue
        heirs = [nodes[one] for one in state.replicas if one != state.leader.broker_id]
        found.append(Cast(partition, nodes[state.leader.broker_id], *heirs))
    return found


async def until(stage: Stage, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    """Whether it did within so long; checked when an object changed or a record was answered."""
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
    """The partition of the next record that is acknowledged; empty where none is."""
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


async def fall(stage: Stage, *nodes: Node) -> None:
    """Their processes end, of which the operator hears at once, and then they have no power."""
    for one in nodes:
        stage.world.hit(one)
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
    stage.world.network.cut(one.host, "api")
    stage.world.network.cut("api", one.host)


def state_of(stage: Stage, partition: TopicPartition) -> PartitionState | None:
    return dict(states_in(stage.world.store)).get(partition)


def leader_of(stage: Stage, partition: TopicPartition) -> BrokerId | None:
    state = state_of(stage, partition)
    return state.leader.broker_id if state is not None and state.leader is not None else None


def leads(stage: Stage, partition: TopicPartition, node: Node) -> bool:
    return leader_of(stage, partition) == node.broker_id


def in_sync(stage: Stage, partition: TopicPartition) -> dict[int, int]:
    """Broker -> the session in which it is listed."""
    state = state_of(stage, partition)
    return {} if state is None else {int(one.broker_id): int(one.session) for one in state.isr}


def session(stage: Stage, node: Node) -> int:
    """The newest; 0 before the first."""
    return int(_spec(stage, node).get("session", 0))


def is_fenced(stage: Stage, node: Node) -> bool:
    return bool(_spec(stage, node).get("fenced"))


def _spec(stage: Stage, node: Node) -> dict[str, Any]:
    found = stage.world.store.peek(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{node.broker_id}")
    spec: dict[str, Any] = (found or {}).get("spec", {})
    return spec
