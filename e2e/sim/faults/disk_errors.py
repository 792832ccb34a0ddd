"""I/O errors of the kernel for any file, with the state that they leave behind.

A failed sync, also one that fails because the disk is full, loses the bytes that it should have
written (`MemoryDisk`). A failed append may have written a part, which the broker truncates; that
may fail, too.
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
"""Parts of the paths of small files, which are always replaced as a whole; "" matches any file."""
SYNCED: Final = (LOG_SUFFIX, LOG_SUFFIX, INDEX_SUFFIX, "")


async def fail_syncs(stage: Stage) -> None:
    """Let one to three syncs of a broker fail with EIO, some seconds apart."""
    disks, chance = stage.node().disks, stage.chance
    for _ in range(chance.choice((1, 1, 2, 3))):
        disks.fail_next("sync", chance.choice(SYNCED), "sync failed")
        await asyncio.sleep(chance.uniform(0.5, 10.0))


async def fill_at_sync(stage: Stage) -> None:
    """Let a sync fail with ENOSPC, as on file systems that allocate space only when they sync."""
    path_part = stage.chance.choice(SYNCED)
    stage.node().disks.fail_next("sync", path_part, "sync failed", errno.ENOSPC)


async def fail_replacement(stage: Stage) -> None:
    """Let the replacement of a small file, or the sync of a directory, fail."""
    chance = stage.chance
    operation = chance.choice(("replace", "replace", "replace", "sync_directory"))
    path_part = "" if operation == "sync_directory" else chance.choice(REPLACED)
    number = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC))
    stage.node().disks.fail_next(operation, path_part, "small file failed", number)


async def cut_short(stage: Stage) -> None:
    """Let an append fail after a part is written; the truncation of this part may fail, too."""
    chance = stage.chance
    number = chance.choice((errno.EIO, errno.ENOSPC))
    stage.node().disks.fail_next(
        "append",
        LOG_SUFFIX,
        "write failed" if number == errno.EIO else "part written",
        number,
        written_share=chance.random(),
        # Only after EIO may the truncation fail: a full disk does not prevent it.
        is_cut_back=number == errno.ENOSPC or chance.random() < 0.5,
    )


ACTS: Final[dict[str, Act]] = {
    "any sync fails": fail_syncs,
    "no room at a sync": fill_at_sync,
    "small file fails": fail_replacement,
    "write cut short": cut_short,
}
