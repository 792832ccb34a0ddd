"""Errors of the kernel at any file and at any moment, with all that they leave behind.

A sync that fails, for want of room too, loses what it was to write (`MemoryDisk`). An append that
fails may have written a part, which is cut back, or is not because that fails as well.
"""

import asyncio
import errno
from typing import Final

from chiplog_broker.metadata.kubernetes.session_file import SESSION_FILE
from chiplog_broker.storage.names import (
    EPOCH_CHECKPOINT,
    HIGH_WATERMARKS,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RECOVERY_POINTS,
    SNAPSHOT_SUFFIX,
)
from e2e.sim.faults.stage import Act, Stage

REPLACED: Final = (
    EPOCH_CHECKPOINT,
    RECOVERY_POINTS,
    HIGH_WATERMARKS,
    SNAPSHOT_SUFFIX,
    SESSION_FILE,
    ".json",
    "",
)
"""Parts of the paths of small files, which are written whole; the empty one is of any of them."""
SYNCED: Final = (LOG_SUFFIX, LOG_SUFFIX, INDEX_SUFFIX, "")


async def fail_syncs(stage: Stage) -> None:
    """EIO of a sync, and perhaps once more of the same process or of the next one."""
    disks, chance = stage.node().disks, stage.chance
    for _ in range(chance.choice((1, 1, 2, 3))):
        disks.fail_next("sync", chance.choice(SYNCED), "sync failed")
        await asyncio.sleep(chance.uniform(0.5, 10.0))


async def fill_at_sync(stage: Stage) -> None:
    """Space for a write is only allocated as it is written out, and there is none."""
    path_part = stage.chance.choice(SYNCED)
    stage.node().disks.fail_next("sync", path_part, "sync failed", errno.ENOSPC)


async def fail_replacement(stage: Stage) -> None:
    """A small file, or a directory, cannot be made durable."""
    chance = stage.chance
    operation = chance.choice(("replace", "replace", "replace", "sync_directory"))
    path_part = "" if operation == "sync_directory" else chance.choice(REPLACED)
    number = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC))
    stage.node().disks.fail_next(operation, path_part, "small file failed", number)


async def cut_short(stage: Stage) -> None:
    """An append writes a part before it fails; what is to cut that off may fail, too."""
    chance = stage.chance
    number = chance.choice((errno.EIO, errno.ENOSPC))
    stage.node().disks.fail_next(
        "append",
        LOG_SUFFIX,
        "write failed" if number == errno.EIO else "part written",
        number,
        written_share=chance.random(),
        # A file that cannot be cut is broken, and the error says so.
        is_cut_back=number == errno.ENOSPC or chance.random() < 0.5,
    )


ACTS: Final[dict[str, Act]] = {
    "any sync fails": fail_syncs,
    "no room at a sync": fill_at_sync,
    "small file fails": fail_replacement,
    "write cut short": cut_short,
}
