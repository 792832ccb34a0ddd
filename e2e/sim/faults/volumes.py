"""Volumes that are lost, replaced by a snapshot, or mounted again, while their machine runs.

Only the volume of the seed's broker with the bad disk is lost or replaced: two others have all
acknowledged records. Any volume may be mounted again.
"""

import asyncio
from typing import Final

from e2e.sim.faults import scene
from e2e.sim.faults.rot import rotting_node
from e2e.sim.faults.stage import Act, Stage

OLDEST_S: Final = 60.0


async def lose(stage: Stage) -> None:
    """Replace the volume by an empty one, as if its claim had been deleted with the pod."""
    node = rotting_node(stage)
    if node is not None and scene.is_dispensable(stage, node):
        stage.count_effect("volume was lost")
        node.disks.error_count += 1
        node.lose_volume()


async def restore(stage: Stage) -> None:
    """Replace the volume by a snapshot of up to a minute ago."""
    node = rotting_node(stage)
    if node is None:
        return
    copy = node.disks.copied()
    await asyncio.sleep(stage.chance.uniform(1.0, OLDEST_S))
    if scene.is_dispensable(stage, node):
        stage.count_effect("volume went back")
        node.disks.error_count += 1
        node.put_back(copy)


async def tear_off(stage: Stage) -> None:
    """Detach a volume while it is in use, and mount it again: unsynced writes may be lost."""
    stage.node().mount_again(in_order=False)


async def mount_again(stage: Stage) -> None:
    """Unmount a volume, which writes dirty pages, and mount it again."""
    stage.node().mount_again(in_order=True)


async def drop_caches(stage: Stage) -> None:
    """Drop a page cache, as a kernel short of memory does: reads now see what failed syncs lost."""
    stage.node().disks.drop_caches()


ACTS: Final[dict[str, Act]] = {
    "volume lost": lose,
    "volume restored": restore,
    "volume torn off": tear_off,
    "volume mounted again": mount_again,
    "page cache dropped": drop_caches,
}
