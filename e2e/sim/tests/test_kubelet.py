"""The simulated kubelet tells the API server how its pod is, again where that was forgotten."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from chiplog_kube import kinds
from e2e.sim.kubelet import NAMESPACE, RECONCILE_S
from e2e.sim.loop import SimLoop
from e2e.sim.seed import well_within
from e2e.sim.world import World

T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("no_log_lines")


async def ready_after_a_restore(world: World, after_s: float) -> str:
    """The status of the condition Ready so long after etcd went back to when it was "False"."""
    world.begin()
    world.apply_cluster()
    assert await well_within(world, 60.0) == ""
    await asyncio.sleep(2 * RECONCILE_S)
    pod = world.store.get(kinds.PODS, NAMESPACE, world.nodes[1].host)
    (ready,) = pod["status"]["conditions"]
    assert ready["status"] == "True"
    pod["status"]["conditions"] = [{**ready, "status": "False"}]
    world.store.replace(kinds.PODS, pod, "status")
    world.store.restore(world.store.backup(), bump=1)
    await asyncio.sleep(after_s)
    (ready,) = world.store.get(kinds.PODS, NAMESPACE, world.nodes[1].host)["status"]["conditions"]
    await world.end()
    return str(ready["status"])


@pytest.mark.parametrize(("after_s", "status"), [(0.0, "False"), (RECONCILE_S + 1.0, "True")])
def test_a_status_that_went_back_is_written_again(after_s: float, status: str) -> None:
    assert simulated(lambda world: ready_after_a_restore(world, after_s)) == status


def simulated(work: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """What `work` returns in a new world of one broker."""
    loop = SimLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    world = World(loop, "a seed", 1, 1)
    try:
        return loop.run_until_complete(work(world))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def nodes_after_a_restore(world: World) -> list[str]:
    """The Node objects after etcd went back to before the second machine was added."""
    world.begin()
    before = world.store.backup()
    world.add_node()
    world.restore(before)
    nodes = [one["metadata"]["name"] for one in world.store.all_of(kinds.NODES)]
    await world.end()
    return nodes


def test_a_machine_that_the_restored_etcd_does_not_know_is_registered_again() -> None:
    assert simulated(nodes_after_a_restore) == ["node-1", "node-2"]
