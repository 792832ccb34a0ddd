"""Processes are killed or paused, or their machines lose power."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import NAMESPACE, Node
from e2e.sim.loop import PROCESS, Process


async def kill_broker(stage: Stage) -> None:
    stage.node().kill()


async def delete_pod(stage: Stage) -> None:
    host = stage.node().host
    if stage.world.store.find(kinds.PODS, NAMESPACE, host) is not None:
        stage.world.store.delete(kinds.PODS, ObjectKey(NAMESPACE, host))


async def kill_operator(stage: Stage) -> None:
    stage.operator().kill()


async def pause_operator(stage: Stage) -> None:
    one = stage.operator()
    one.pause()
    await asyncio.sleep(stage.chance.uniform(1.0, 20.0))
    one.resume()


async def pause_broker(stage: Stage) -> None:
    one = stage.node()
    one.pause()
    await asyncio.sleep(stage.chance.uniform(0.5, 15.0))
    one.resume()


async def cut_power(stage: Stage) -> None:
    await _cut_power_for_a_while(stage, stage.node())


async def cut_all_power(stage: Stage) -> None:
    for one in stage.world.nodes.values():
        stage.world.count_hit(one)
    nodes = stage.world.nodes.values()
    await asyncio.gather(*(_cut_power_for_a_while(stage, one) for one in nodes))


async def _cut_power_for_a_while(stage: Stage, node: Node) -> None:
    if node.has_power:
        node.cut_power()
        await asyncio.sleep(stage.chance.uniform(0.5, 15.0))
        node.power_on()


DISK_STEPS: Final = (  # operations of `MemoryDisk`
    "append",
    "sync",
    "replace",
    "rename",
    "truncate",
    "remove",
    "open",
    "make_directory",
    "sync_directory",
)
STATUS_WRITE: Final = "status write"
WAIT_S: Final = 20.0


async def crash_broker(stage: Stage) -> None:
    """Crash a broker at its next disk operation of a random kind or its next write to the API.

    The crash may also come a random number of callbacks later, so at any `await` of its code. It is
    a SIGKILL or a power cut.
    """
    node, chance = stage.node(), stage.chance
    event = chance.choice((*DISK_STEPS, "append", "sync", "replace", STATUS_WRITE))
    after = chance.choice((0, 0, 1, 2, 3, chance.randrange(4, 60)))
    crash = node.cut_power if chance.random() < 0.4 else node.kill
    process = node.process
    if process is None:
        return

    def reached() -> None:
        """Crash the broker, and count that the fault took effect."""
        stage.count_effect(f"crashed at {event}")
        crash()

    if event == STATUS_WRITE:
        stop = _on_api_write(stage, process, after, reached)
    else:
        stop = _on_disk_step(node, event, after, reached)
    try:
        await _until_ended(stage, process)
    finally:
        stop()
    if not node.has_power:
        await asyncio.sleep(chance.uniform(0.5, 10.0))
        node.power_on()


async def crash_operator(stage: Stage) -> None:
    """Crash an operator at its next write to the API server, or some callbacks later.

    The write is carried out, but may not be answered.
    """
    operator, chance = stage.operator(), stage.chance
    process = operator.process
    if process is None:
        return

    def reached() -> None:
        """Crash the operator, and count that the fault took effect."""
        stage.count_effect("crashed at a write of the operator")
        operator.kill()

    stop = _on_api_write(stage, process, chance.choice((0, 1, chance.randrange(2, 60))), reached)
    try:
        await _until_ended(stage, process)
    finally:
        stop()


def _on_disk_step(
    node: Node, operation: str, after: int, reached: Callable[[], None]
) -> Callable[[], None]:
    """Call `reached` `after` callbacks after the broker's next disk operation of a kind.

    `operation` is the kind, like "sync". With 0 callbacks, `reached` is called just before the
    operation. Returns a function that cancels this.
    """
    process = node.process
    assert process is not None

    def stepping(what: str) -> None:
        """Called before each disk operation; begins to count callbacks at the first right one."""
        if what == operation:
            node.disks.on_step = None
            _call_after_callbacks(process, after, reached)

    node.disks.on_step = stepping
    return partial(_cancel_disk_step, process, node)


def _on_api_write(
    stage: Stage, process: Process, after: int, reached: Callable[[], None]
) -> Callable[[], None]:
    """Call `reached` once the process has run `after` callbacks since its next write to the API.

    Returns a function that cancels this.
    """
    listeners = stage.world.server.on_write

    def wrote(*_: str) -> None:
        """Called after each write of any client; begins to count at the first of `process`."""
        if PROCESS.get() is process and process.is_alive:
            listeners.remove(wrote)
            _call_after_callbacks(process, after, reached)

    def stop() -> None:
        """Cancel: neither wait for a write nor count callbacks any longer."""
        if wrote in listeners:
            listeners.remove(wrote)
        process.steps_left = None

    listeners.append(wrote)
    return stop


def _call_after_callbacks(process: Process, after: int, reached: Callable[[], None]) -> None:
    """Call `reached` when the process has run `after` more callbacks; 0 for now."""
    if after == 0:
        reached()
    else:
        process.steps_left, process.on_last_step = after, reached


def _cancel_disk_step(process: Process, node: Node) -> None:
    """Cancel what `_on_disk_step` began."""
    node.disks.on_step = None
    process.steps_left = None


async def _until_ended(stage: Stage, process: Process) -> None:
    """Wait until the process has ended, but no longer than `WAIT_S`."""
    until_s = stage.world.loop.time() + WAIT_S
    while process.is_alive and stage.world.loop.time() < until_s:  # noqa: ASYNC110
        await asyncio.sleep(0.1)


ACTS: Final[dict[str, Act]] = {
    "broker killed": kill_broker,
    "pod deleted": delete_pod,
    "operator killed": kill_operator,
    "operator paused": pause_operator,
    "broker paused": pause_broker,
    "power cut": cut_power,
    "power cut of all": cut_all_power,
    "broker crash at a step": crash_broker,
    "operator crash at a step": crash_operator,
}
