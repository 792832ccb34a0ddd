"""Volumes that are lost, put back to a copy, or mounted again, while the machine runs on.

What goes back in time or is lost is that of the broker whose disk is bad in this seed, where two
others hold everything that was acknowledged. Any volume may be mounted again.
"""

import asyncio
from typing import Final

from e2e.sim.faults.rot import rotting_node
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.maps import in_sync_in

OLDEST_S: Final = 60.0


async def lose(stage: Stage) -> None:
    """A new volume, empty, as when a claim was deleted with its pod."""
    node = rotting_node(stage)
    if node is not None and _is_dispensable(stage, node):
        stage.count_effect("volume was lost")
        node.disks.went_wrong += 1
        node.lose_volume()


async def restore(stage: Stage) -> None:
    """A snapshot of up to a minute ago, perfect, is what the next process finds."""
    node = rotting_node(stage)
    if node is None:
        return
    copy = node.disks.copied()
    await asyncio.sleep(stage.chance.uniform(1.0, OLDEST_S))
    if _is_dispensable(stage, node):
        stage.count_effect("volume went back")
        node.disks.went_wrong += 1
        node.put_back(copy)


async def tear_off(stage: Stage) -> None:
    """The volume is lost while it is in use, and mounted again."""
    stage.node().mount_again(in_order=False)


async def mount_again(stage: Stage) -> None:
    """Unmounted in order, which writes what is dirty, and mounted again."""
    stage.node().mount_again(in_order=True)


async def drop_caches(stage: Stage) -> None:
    """The kernel needs memory: nobody sees any more what a failed sync lost."""
    stage.node().disks.drop_caches()


def _is_dispensable(stage: Stage, node: Node) -> bool:
    """Whether somebody else is in sync, of every partition: else there may be no other copy that
    vouches for itself, and all would be left to the user."""
    return all(one - {node.broker_id} for one in in_sync_in(stage.world.store).values())


ACTS: Final[dict[str, Act]] = {
    "volume lost": lose,
    "volume restored": restore,
    "volume torn off": tear_off,
    "volume mounted again": mount_again,
    "page cache dropped": drop_caches,
}
