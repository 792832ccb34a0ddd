"""Planted bugs of durability: acknowledgements before a sync, ignored errors of the disk.

Each function replaces one of the broker or of the simulated disk; `_sound_...` is the original.
"""

import asyncio
from typing import Final

from chiplog_broker.metadata.kubernetes.store import KubernetesStore
from chiplog_broker.partitions.follow_steps import FetchPosition
from chiplog_broker.partitions.following import Following
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage import directory, recovery
from chiplog_broker.storage.clean_shutdown import decode_clean_shutdown
from chiplog_broker.storage.durability import LogSync
from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.names import CLEAN_SHUTDOWN, EPOCH_CHECKPOINT
from chiplog_broker.storage.segment import Segment
from e2e.sim import disk
from e2e.sim.mutants.mutant import FORK, LOSS, Mutant, mix, plant

_sound_sync = Segment.sync
_unsaved: dict[EpochHistory, bytes] = {}
"""Leader epochs' history -> its last content, which `_save_epochs_late` has not written yet."""


async def _sync_nothing(_file: object) -> None:
    """A sync that takes time but makes nothing durable."""
    await asyncio.sleep(0.0005)


async def _sync_again(segment: Segment) -> None:
    """Repeat a failed sync.

    After EIO the kernel marks the pages clean, so the second sync succeeds without writing them.
    """
    try:
        await _sound_sync(segment)
    except OSError:
        await _sound_sync(segment)


async def _save_epochs_late(sync: LogSync) -> int:
    """Write the history of leader epochs only when it changes the next time."""
    before = _unsaved.get(sync._epochs)  # noqa: SLF001
    _unsaved[sync._epochs] = sync._epochs.encode()  # noqa: SLF001
    if before is not None:
        path = f"{sync._directory}/{EPOCH_CHECKPOINT}"  # noqa: SLF001
        await sync._disk.replace(path, before)  # noqa: SLF001
    return sync._epochs.version  # noqa: SLF001


async def _keep_clean_mark(there: Disk) -> tuple[bool, int | None]:
    """Read the mark of a clean shutdown without removing it."""
    if not there.exists(CLEAN_SHUTDOWN):
        return False, None
    return True, decode_clean_shutdown(read_file(there, CLEAN_SHUTDOWN))


def _unsynced_position(following: Following) -> FetchPosition | None:
    """Report a follower's log end to the leader before it is synced."""
    log = following._log  # noqa: SLF001
    if following.is_over or not log.is_writable:
        return None
    following._begin_sync()  # noqa: SLF001
    return FetchPosition(
        log.end_offset, log.last_epoch, following.leader_epoch, log.log_start_offset
    )


def _forget_the_failure(store: KubernetesStore) -> None:
    """Go offline after a disk error without noting the error."""
    store._is_online = False  # noqa: SLF001
    store._writer.changed()  # noqa: SLF001


PAGE_CACHE: Final = {"chiplog.durability": "PageCache"}
SYNCED_SOON: Final = PAGE_CACHE | {"flush.ms": "300"}

MUTANTS: Final = (
    Mutant(
        "the disk lies about syncs",
        mix(1, 3.0, "power cut of all"),
        LOSS,
        plant(disk.memory_disk().MemoryFile, "sync", _sync_nothing),
    ),
    Mutant(
        "acknowledged before fsync",
        mix(1, 3.0, "power cut of all"),
        LOSS,
        plant(LogState, "countable_end_offset", property(lambda log: log.end_offset)),
    ),
    Mutant(
        "a follower vouches for what it has not synced",
        mix(3, 1.0, "slow disk", "power cut of all"),
        LOSS | FORK,
        plant(Following, "position", _unsynced_position),
    ),
    Mutant(
        "fsync is retried after EIO",
        mix(1, 0.7, "sync fails", "power cut of all"),
        LOSS,
        plant(Segment, "sync", _sync_again),
    ),
    Mutant(
        "the epoch checkpoint is not durable before the first acknowledgement",
        mix(1, 1.5, "broker killed", "power cut of all"),
        LOSS | {"not-healed"},
        plant(LogSync, "_save_epochs", _save_epochs_late),
    ),
    Mutant(
        "a torn tail is not checked",
        mix(1, 2.0, "torn again and again", faults_s=30.0),
        LOSS | {"never-sent", "not-readable", "stuck-reader"},
        plant(recovery, "check_crc", lambda *_: None),
    ),
    Mutant(
        "the clean marker is left behind",
        mix(1, 3.0, "slow disk", "pod deleted", "power cut of all", faults_s=150.0),
        LOSS | {"never-sent", "not-healed", "not-readable", "stuck-reader"},
        plant(directory, "take_clean_mark", _keep_clean_mark),
    ),
    Mutant(
        "a part of an append is not cut back",
        mix(1, 5.0, "cut short and stopped", faults_s=30.0),
        LOSS | {"never-sent", "not-healed", "not-readable", "stuck-reader"},
        plant(disk.memory_disk().MemoryFile, "_cut_back", lambda *_: None),
    ),
    Mutant(
        "that the disk failed is forgotten",
        mix(3, 2.0, "any sync fails", "domino", faults_s=60.0, config=SYNCED_SOON),
        LOSS | FORK,
        plant(KubernetesStore, "disk_failed", _forget_the_failure),
    ),
)
