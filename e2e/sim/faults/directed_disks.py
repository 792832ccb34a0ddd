"""Disks and volumes that forget what they had promised, just before everybody needs it.

In each act one broker's disk is wrong, and the others are undamaged: whichever is elected, nothing
that was acknowledged may be lost. As in `directed`, only mixes that name an act have it.
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
"""The liveness probe, a back-off and a recovery take so long at most."""
OLDEST_S: Final = 60.0
"""So old is a copy at most."""
FIRST_S: Final = 15.0
"""So long the broker with the bad disk is alone: it could be elected."""
ALONE_S: Final = 110.0
"""So long it is alone where it is believed, as nobody else says anything."""
DARK_S: Final = 25.0
"""After so long all are known to be gone. One that is back sooner leaves the ISR to the others."""
SOME_BATCHES: Final = 10
SOME_APPENDS: Final = 500
"""More than a broker tries before it stops."""


async def fail_and_go_dark(stage: Stage) -> None:
    """A sync fails. The broker starts again, is in sync again, and then all lose power."""
    node = await _back_after_failure(stage)
    if node is not None:
        await _all_dark(stage, node)


async def fail_and_mount_again(stage: Stage) -> None:
    """A sync fails. The broker starts again, is in sync again, and then its page cache goes."""
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
    """While all are without power, one volume is replaced by an older copy of itself."""
    await _put_back(stage, FIRST_S, 1.0)


async def put_back_alone(stage: Stage) -> None:
    """As `put_back`, but the others stay without power for so long that the cluster does not wait
    for them."""
    await _put_back(stage, ALONE_S, DARK_S)


async def rot_and_stay_alone(stage: Stage) -> None:
    """As `rot_and_kill_all`, but the others stay away for so long that the cluster does not wait
    for them."""
    node = await _rotten(stage)
    if node is not None:
        await _all_dark(stage, node, alone_s=ALONE_S, dark_s=DARK_S)


async def _put_back(stage: Stage, alone_s: float, dark_s: float) -> None:
    node = await _ready_one(stage)
    if node is None:
        return
    copy = node.disks.copied()
    await asyncio.sleep(stage.chance.uniform(1.0, OLDEST_S))
    await _ready_one(stage, node)
    stage.count_effect("volume went back")
    await _all_dark(stage, node, lambda: node.disks.put_back(copy), alone_s=alone_s, dark_s=dark_s)


async def remount(stage: Stage) -> None:
    """All are killed, and one volume is torn off and mounted again: the machine was never off."""
    node = await _ready_one(stage)
    if node is not None:
        await _all_killed(stage, node, lambda: node.mount_again(in_order=False))


async def fill_and_stop(stage: Stage) -> None:
    """There is room for parts of appends only, until the broker has stopped in good order."""
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
    """A broker whose log failed to sync, as soon as it serves again."""
    node = await _ready_one(stage)
    if node is None:
        return None
    before, failed = scene.session(stage, node), stage.world.faults["sync failed"]
    node.disks.fails = True
    is_back = await scene.until(
        stage,
        lambda: stage.world.faults["sync failed"] > failed and scene.session(stage, node) > before,
        RESTART_S,
    )
    return await _ready_one(stage, node) if is_back else None


async def _rotten(stage: Stage) -> Node | None:
    """The broker with the bad disk, once a bit of a batch above a recovery point is flipped."""
    node = stage.world.nodes[stage.world.bad_disk]
    if not await scene.until(stage, lambda: len(batches_above(node.disks)) >= SOME_BATCHES):
        return None
    if await _ready_one(stage, node) is None:
        return None
    found = batches_above(node.disks)
    # The newest may not be acknowledged yet.
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
    stage.world.hit(chosen)
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
    """Cut the power of all nodes, call `meanwhile`, and power on `first` `alone_s` before the
    others."""
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
    """All processes end, this one's by `end`; the others cannot register for a while."""
    for one in stage.world.nodes.values():
        if one is not first:
            scene.cut_api(stage, one)
            one.kill()
    end()
    await asyncio.sleep(FIRST_S)
    stage.world.network.heal()


ACTS: Final[dict[str, Act]] = {
    "eio then dark": scene.alone(fail_and_go_dark),
    "eio then remounted": scene.alone(fail_and_mount_again),
    "rot then all killed": scene.alone(rot_and_kill_all),
    "rot then power cut of all": scene.alone(rot_and_go_dark),
    "volume put back": scene.alone(put_back),
    "rot then alone": scene.alone(rot_and_stay_alone),
    "volume put back and alone": scene.alone(put_back_alone),
    "volume remounted": scene.alone(remount),
    "cut short and stopped": scene.alone(fill_and_stop),
}
