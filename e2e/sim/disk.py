"""The disks of one machine: what a process wrote, what its death leaves, what a power cut leaves.

The rules of what may be lost are those of the broker's own tests (`MemoryDisk`): after a power
cut each unsynced write, truncation and change of a name is kept, torn or lost on its own, in
any order. A process that ends loses nothing: the page cache belongs to the machine. A failed sync
loses the bytes that it should have written, though the page cache still shows them.

A whole volume can be lost, replaced by an older snapshot, or mounted again. Data and metadata are
on the same volume, so this always happens to both.
"""

import asyncio
import errno
import importlib.util
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from chiplog_broker.metadata.kubernetes.map_files import MAPS
from chiplog_broker.storage.names import (
    CLEAN_SHUTDOWN,
    DAMAGED_REPLICAS,
    DELETED_DIRECTORY_SUFFIX,
    META_PROPERTIES,
)

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk

SECTOR_BYTES: Final = 512
SMALL_BYTES: Final = 100
"""Files up to this size, like meta.properties, name the owner of a directory. What they held
before a damage is remembered."""
EVICTED_SHARE: Final = 0.2
"""Share of failed syncs whose lost bytes also leave the page cache at once, so that the next read
sees the loss."""
ROOMY_BYTES: Final = 2**40
BROKER_TESTS: Final = Path(__file__).parents[2] / "broker-image" / "tests"


def memory_disk() -> Any:
    """Import the broker tests' `memory_disk` module by its path: `tests` is not a package."""
    name = "sim_memory_disk"
    if name not in sys.modules:
        path = BROKER_TESTS / "storage" / "memory_disk.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


_memory_disk = memory_disk()


class VolumeCopy(NamedTuple):
    """A snapshot of a volume, as if everything had been synced when it was taken."""

    data: "MemoryDisk"
    metadata: "MemoryDisk"


class Disks:
    """Data and metadata of one broker, on one device."""

    def __init__(self, chance: random.Random, faults: "Counter[str]") -> None:
        self._chance = chance
        self._faults = faults
        self.slow_s = 0.0
        """The longest additional delay of a sync, in seconds."""
        self.fails_next_sync = False
        """Whether the next sync of a log fails with EIO and loses the bytes that were unsynced."""
        self.on_append: Callable[[Disks, str, bytes], None] = lambda *_: None
        """Called for each append to a data file with this object, the file's path and the bytes."""
        self.on_deletion: Callable[[Disks, str], None] = lambda *_: None
        """Called just before a replica is deleted, with this object and the replica's directory."""
        self.damaged: list[str] = []
        """Paths of files whose bytes the simulator changed."""
        self.before_damage: dict[bytes, bytes] = {}
        """Damaged content of a small file -> the content that was last written to it."""
        self.error_count = 0
        """Number of errors and damages of this disk. Above 0, its broker may have lost records
        through no fault of its own."""
        self.on_step: Callable[[str], None] | None = None
        """Called just before each call that changes data or metadata."""
        self.data: MemoryDisk = self._ready(_memory_disk.MemoryDisk())
        self.metadata: MemoryDisk = self._ready(_memory_disk.MemoryDisk(), is_data=False)

    def _ready(self, disk: "MemoryDisk", *, is_data: bool = True) -> "MemoryDisk":
        """The same disk, with its delays, chances and callbacks set to those of this object."""
        disk.device = self._device
        disk.stepping = self._stepping
        disk.chance, disk.evicted_share = self._chance, EVICTED_SHARE
        if is_data:
            disk.appended, disk.renaming = self._appended, self._renaming
        return disk

    def _stepping(self, operation: str, _path: str) -> None:
        """Called by both disks just before a change; tells the fault that waits for it, if any."""
        if self.on_step is not None:
            self.on_step(operation)

    def _appended(self, path: str, data: bytes) -> None:
        self.on_append(self, path, data)

    def _renaming(self, old: str, new: str) -> None:
        """A broker deletes a replica by giving its directory another name first."""
        if new.endswith(DELETED_DIRECTORY_SUFFIX):
            self.on_deletion(self, old)

    async def _device(self, path: str) -> None:
        """The device's part of a sync: it takes its time, and fails if the next one is to fail."""
        fails, self.fails_next_sync = self.fails_next_sync and path.endswith(".log"), False
        await asyncio.sleep(self._chance.uniform(0.0002, 0.001 + self.slow_s))
        if fails:
            self._failed("sync failed", may_lose_records=True)
            raise OSError(errno.EIO, "injected into sync")

    def fail_next(
        self,
        operation: str,
        path_part: str,
        counted_as: str,
        error_number: int = errno.EIO,
        **how: Any,
    ) -> None:
        """Let the next call of `operation` fail whose path contains `path_part`.

        It is counted as the fault `counted_as` when it happens; `how` are the further
        arguments of `MemoryDisk.fail_next`.
        """
        # A call that fails on a full disk loses nothing that was written, unless it is a sync.
        may_lose_records = operation == "sync" or error_number != errno.ENOSPC

        def fired() -> None:
            self._failed(counted_as, may_lose_records=may_lose_records)

        for disk in (self.data, self.metadata):
            disk.fail_next(operation, error_number, path_part, fired, **how)

    def _failed(self, counted_as: str, *, may_lose_records: bool) -> None:
        """Count an injected error, and whether the broker may lose records by it."""
        self._faults[counted_as] += 1
        self.error_count += may_lose_records

    def damage(
        self, path: str, position: int, data: bytes, disk: "MemoryDisk | None" = None
    ) -> None:
        """Change bytes of a file without a write, as a failing medium does.

        `disk` is the data disk unless given.
        """
        disk = disk or self.data
        before = bytes(disk.content(path))
        disk.damage(path, position, data)
        if len(before) <= SMALL_BYTES:
            written = self.before_damage.get(before, before)
            self.before_damage[bytes(disk.content(path))] = written
        self.damaged.append(path)
        self.error_count += 1

    @property
    def is_refused(self) -> bool:
        """Whether a file is damaged without which a broker refuses to start.

        The broker asks its user to replace the volume by an empty one then.
        """
        names = {one.rpartition("/")[2] for one in self.damaged}
        is_map = any(one.startswith(f"{MAPS}/") for one in self.damaged)
        return is_map or bool(names & {META_PROPERTIES, DAMAGED_REPLICAS})

    @property
    def is_troubled(self) -> bool:
        """Whether the disk is slow or full, or ever had an error."""
        is_full = self.data.capacity_bytes < ROOMY_BYTES
        return bool(self.slow_s or self.error_count or is_full)

    def lose_clean_mark(self) -> None:
        """Remove the mark of a clean shutdown, so that the next start verifies its logs."""
        if self.data.exists(CLEAN_SHUTDOWN):
            self.data.remove(CLEAN_SHUTDOWN)

    def fill_up(self, free_bytes: int) -> None:
        """Shrink the data disk until only `free_bytes` are free."""
        usage = self.data.usage()
        self.data.capacity_bytes = usage.total_bytes - usage.free_bytes + free_bytes

    def make_room(self) -> None:
        self.data.capacity_bytes = ROOMY_BYTES

    def heal(self) -> None:
        """End all failures and delays; damaged files stay damaged."""
        self.slow_s, self.fails_next_sync = 0.0, False
        self.make_room()
        self.data.fail_no_more()
        self.metadata.fail_no_more()

    def process_ended(self) -> None:
        """Prepare the disks for the next process: it finds all writes, synced or not."""
        self.data = self._ready(self.data.after_kill())
        self.metadata = self._ready(self.metadata.after_kill(), is_data=False)

    def power_cut(self) -> None:
        """Cut the power: synced bytes stay, and of the others a random part."""
        self.data = self._ready(self.data.after_power_cut(self._chance.getrandbits(32)))
        after = self.metadata.after_power_cut(self._chance.getrandbits(32))
        self.metadata = self._ready(after, is_data=False)

    def drop_caches(self) -> None:
        """Drop clean pages, as a kernel short of memory does: reads go to the device again."""
        self.data.drop_caches()
        self.metadata.drop_caches()

    def copied(self) -> VolumeCopy:
        """A snapshot, taken at this moment."""
        return VolumeCopy(self.data.copy(), self.metadata.copy())

    def put_back(self, copy: VolumeCopy) -> None:
        """Replace the volume's content by the snapshot. No process may be running."""
        self._mounted(copy.data.copy(), copy.metadata.copy())

    def lose_volume(self) -> None:
        """Replace the volume by an empty one. No process may be running."""
        self._mounted(_memory_disk.MemoryDisk(), _memory_disk.MemoryDisk())
        self.damaged.clear()

    def mount_again(self) -> None:
        """Unmount and mount again: dirty pages are written, and the page cache is empty after."""
        self._mounted(self.data.after_unmount(), self.metadata.after_unmount())

    def _mounted(self, data: "MemoryDisk", metadata: "MemoryDisk") -> None:
        """Use these two disks from now on; open handles of the old ones fail."""
        data.capacity_bytes = self.data.capacity_bytes
        self.data.power_off()
        self.metadata.power_off()
        self.data, self.metadata = self._ready(data), self._ready(metadata, is_data=False)
