"""Disks and volumes that lose records just before these are needed.

In each act one broker's disk is bad and the others are undamaged: whichever broker is elected, no
acknowledged record may be lost. As in `directed`, no seed draws these faults.
"""

import asyncio
from collections.abc import Callable
from errno import ENOSPC
from typing import Final

from chiplog_broker.storage.names import LOG_SUFFIX
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import scene
from e2e.sim.faults.rot import batches_above, flip_bit
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import NAMESPACE, Node
from e2e.sim.maps import states_in

RESTART_S: Final = 60.0
"""The longest restart: liveness probe, back-off and recovery together."""
OLDEST_S: Final = 60.0
"""The greatest age of a copy of a volume."""
FIRST_S: Final = 15.0
"""How long the broker with the bad disk runs before the others return: it could be elected."""
ALONE_S: Final = 110.0
"""As `FIRST_S`, but so long that the operator elects it without hearing from the others."""
DARK_S: Final = 25.0
"""After this time without power all brokers are fenced. If one returned sooner, it would leave
the ISR while the others are still in it."""
SOME_BATCHES: Final = 10
SOME_APPENDS: Final = 500
"""More appends than a broker tries before it stops because of a full disk."""


async def fail_and_go_dark(stage: Stage) -> None:
    """A sync fails, the broker restarts and is in sync again; then all nodes lose power."""
    node = await _back_after_failure(stage)
    if node is not None:
        await _all_dark(stage, node)


async def fail_and_mount_again(stage: Stage) -> None:
    """A sync fails, the broker restarts and is in sync again; then it loses its page cache."""
    node = await _back_after_failure(stage)
    if node is not None:
        await _all_killed(stage, node, lambda: node.mount_again(in_order=True))


async def rot_and_kill_all(stage: Stage) -> None:
    """Flip a bit of a batch that recovery is going to read, then kill all processes."""
    node = await _rotten(stage)
    if node is not None:
        await _all_killed(stage, node, node.kill)


async def rot_and_go_dark(stage: Stage) -> None:
    """Flip a bit of a batch that recovery is going to read, then cut all nodes' power."""
    node = await _rotten(stage)
    if node is not None:
        await _all_dark(stage, node)


async def put_back(stage: Stage) -> None:
    """Cut all nodes' power, and replace one volume by an older copy before it returns."""
    await _put_back(stage, FIRST_S, 1.0)


async def put_back_alone(stage: Stage) -> None:
    """Cut all nodes' power, replace one volume by an older copy, and start its node long first.

    The others return so late that the cluster does not wait for them.
    """
    await _put_back(stage, ALONE_S, DARK_S)


async def rot_and_stay_alone(stage: Stage) -> None:
    """Damage one node's disk, cut all nodes' power, and start this node long before the others.

    The others return so late that the cluster does not wait for them.
    """
    node = await _rotten(stage)
    if node is not None:
        await _all_dark(stage, node, alone_s=ALONE_S, dark_s=DARK_S)


async def _put_back(stage: Stage, alone_s: float, dark_s: float) -> None:
    """Copy a volume, and put the copy back later while all nodes are without power for `dark_s`.

    Its node gets power again `alone_s` before the others.
    """
    node = await _ready_one(stage)
    if node is None:
        return
    copy = node.disks.copied()
    await asyncio.sleep(stage.chance.uniform(1.0, OLDEST_S))
    await _ready_one(stage, node)
    stage.count_effect("volume went back")
    await _all_dark(stage, node, lambda: node.disks.put_back(copy), alone_s=alone_s, dark_s=dark_s)


async def remount(stage: Stage) -> None:
    """Kill all brokers, and detach one volume without unmounting: it loses unsynced writes.

    Its machine keeps running, so the boot id does not change.
    """
    node = await _ready_one(stage)
    if node is not None:
        await _all_killed(stage, node, lambda: node.mount_again(in_order=False))


async def fill_and_stop(stage: Stage) -> None:
    """Let each append write only a part, as on a full disk, until the broker shut down cleanly."""
    node = await _ready_one(stage)
    if node is None:
        return
    before, written = scene.session(stage, node), stage.world.faults["part written"]
    for _ in range(SOME_APPENDS):
        share = stage.chance.uniform(0.1, 0.9)
        node.disks.fail_next("append", LOG_SUFFIX, "part written", ENOSPC, written_share=share)
    await scene.until(stage, lambda: stage.world.faults["part written"] > written)
    stage.world.store.delete(kinds.PODS, ObjectKey(NAMESPACE, node.host))
    await scene.until(stage, lambda: scene.session(stage, node) > before, RESTART_S)


async def _back_after_failure(stage: Stage) -> Node | None:
    """Let a log's sync fail; return the broker once it is restarted and all replicas are in sync.

    None if that takes too long.
    """
    node = await _ready_one(stage)
    if node is None:
        return None
    before, failed = scene.session(stage, node), stage.world.faults["sync failed"]
    node.disks.fails_next_sync = True
    is_back = await scene.until(
        stage,
        lambda: stage.world.faults["sync failed"] > failed and scene.session(stage, node) > before,
        RESTART_S,
    )
    return await _ready_one(stage, node) if is_back else None


async def _rotten(stage: Stage) -> Node | None:
    """Flip a bit of a batch above a recovery point; return the broker with the bad disk.

    None if there are not enough batches in time.
    """
    node = stage.world.nodes[stage.world.bad_disk]
    if not await scene.until(stage, lambda: len(batches_above(node.disks)) >= SOME_BATCHES):
        return None
    if await _ready_one(stage, node) is None:
        return None
    found = batches_above(node.disks)
    # The newest batches may not be acknowledged yet.
    older = found[: len(found) // 2]
    if not older:
        return None
    flip_bit(stage, node, stage.chance.choice(older))
    return node


async def _ready_one(stage: Stage, node: Node | None = None) -> Node | None:
    """A broker to damage, once all brokers are ready and all replicas in sync, so that the others
    have every record; None where that takes too long."""
    nodes = stage.world.nodes

    def are_well() -> bool:
        states = [state for _, state in states_in(stage.world.store)]
        is_complete = all(len(one.isr) == len(one.replicas) for one in states)
        return is_complete and all(_is_ready(one) for one in nodes.values())

    if not await scene.until(stage, are_well):
        return None
    chosen = node or nodes[stage.chance.choice(sorted(nodes))]
    stage.world.count_hit(chosen)
    return chosen


def _is_ready(node: Node) -> bool:
    return node.broker is not None and node.broker.health.readiness()[0]


async def _all_dark(
    stage: Stage,
    first: Node,
    meanwhile: Callable[[], object] = int,
    *,
    alone_s: float = FIRST_S,
    dark_s: float = 1.0,
) -> None:
    """Cut all nodes' power for `dark_s`, and power on `first` `alone_s` before the others.

    `meanwhile` is called when no node has power; the default, `int`, does nothing.
    """
    nodes = stage.world.nodes.values()
    for one in nodes:
        if one.has_power:
            one.cut_power()
    meanwhile()
    await asyncio.sleep(dark_s)
    first.power_on()
    await asyncio.sleep(alone_s)
    for one in nodes:
        one.power_on()


async def _all_killed(stage: Stage, first: Node, end: Callable[[], object]) -> None:
    """End all brokers' processes, that of `first` by calling `end`.

    The others are cut off from the API server for `FIRST_S`, so `first` is admitted before them.
    """
    for one in stage.world.nodes.values():
        if one is not first:
            scene.cut_api(stage, one)
            one.kill()
    end()
    await asyncio.sleep(FIRST_S)
    stage.world.network.heal()


ACTS: Final[dict[str, Act]] = {
    "eio then dark": scene.exclusive(fail_and_go_dark),
    "eio then remounted": scene.exclusive(fail_and_mount_again),
    "rot then all killed": scene.exclusive(rot_and_kill_all),
    "rot then power cut of all": scene.exclusive(rot_and_go_dark),
    "volume put back": scene.exclusive(put_back),
    "rot then alone": scene.exclusive(rot_and_stay_alone),
    "volume put back and alone": scene.exclusive(put_back_alone),
    "volume remounted": scene.exclusive(remount),
    "cut short and stopped": scene.exclusive(fill_and_stop),
}
