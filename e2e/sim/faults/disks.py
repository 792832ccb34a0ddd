"""Disks are slow or full, or fail once."""

import asyncio
from typing import Final

from e2e.sim.faults.stage import Act, Stage


async def slow_disk(stage: Stage) -> None:
    """Slow down all syncs of a broker's disks for up to 15 s."""
    disks = stage.node().disks
    disks.slow_s = stage.chance.choice((0.05, 0.5, 5.0))
    await asyncio.sleep(stage.chance.uniform(1.0, 15.0))
    disks.slow_s = 0.0


async def fail_sync(stage: Stage) -> None:
    stage.node().disks.fails_next_sync = True


async def fail_read(stage: Stage) -> None:
    """Let the next read of a log fail with EIO: the broker restarts."""
    stage.node().disks.fail_next("read", ".log", "read failed")


async def fail_write(stage: Stage) -> None:
    """Let the next write of a log to the page cache fail with EIO."""
    stage.node().disks.fail_next("append", ".log", "write failed")


async def fill_disk(stage: Stage) -> None:
    """Leave a broker less than 20,000 bytes of free disk space, and free it again within 10 s."""
    disks = stage.node().disks
    disks.fill_up(stage.chance.randrange(20_000))
    await asyncio.sleep(stage.chance.uniform(1.0, 10.0))
    disks.make_room()


ACTS: Final[dict[str, Act]] = {
    "slow disk": slow_disk,
    "sync fails": fail_sync,
    "disk full": fill_disk,
    "read fails": fail_read,
    "write fails": fail_write,
}
