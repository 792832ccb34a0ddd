"""The disks of one machine: what a process wrote, what its death leaves, what a power cut leaves.

The rules of what may be lost are those of the broker's own tests (`MemoryDisk`): after a power
cut each unsynced write, truncation and change of a name is kept, torn or lost on its own, in
any order. A process that ends loses nothing: the page cache is the machine's. A sync that fails
loses what it was to write, though the cache still shows it.

A whole volume can be lost, put back to a copy of a while ago, or mounted again. Data and metadata
are on one volume, so they share its fate.
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
from chiplog_broker.storage.names import CLEAN_SHUTDOWN, DAMAGED_REPLICAS, META_PROPERTIES

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk

SECTOR_BYTES: Final = 512
SMALL_BYTES: Final = 100
"""As large are the files that say whose something is."""
EVICTED_SHARE: Final = 0.2
"""A reader sees so many failed syncs at once."""
BROKER_TESTS: Final = Path(__file__).parents[2] / "broker-image" / "tests"


def memory_disk() -> Any:
    """The tests' directories are no packages."""
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
    """A snapshot of a volume, perfect: as if all had been synced at that moment."""

    data: "MemoryDisk"
    metadata: "MemoryDisk"


class Disks:
    """Data and metadata of one broker, on one device."""

    def __init__(self, chance: random.Random, faults: "Counter[str]") -> None:
        self._chance = chance
        self._faults = faults
        self.slow_s = 0.0
        """Syncs take up to so long."""
        self.fails = False
        """The next sync of a log fails with EIO, and what it should have made durable is gone."""
        self.on_append: Callable[[Disks, str, bytes], None] = lambda *_: None
        """Called with what is appended to a data file, and with its path."""
        self.damaged: list[str] = []
        """Paths of files whose bytes changed by themselves."""
        self.before_damage: dict[bytes, bytes] = {}
        """What small files held -> what they held when somebody wrote them."""
        self.went_wrong = 0
        """How often this disk did what a sound one does not: it need not be vouched for."""
        self.on_step: Callable[[str], None] | None = None
        """Called just before each call that changes data or metadata."""
        self.data: MemoryDisk = self._ready(_memory_disk.MemoryDisk())
        self.metadata: MemoryDisk = self._ready(_memory_disk.MemoryDisk(), is_data=False)

    def _ready(self, disk: "MemoryDisk", *, is_data: bool = True) -> "MemoryDisk":
        disk.device = self._device
        disk.stepping = self._stepping
        disk.chance, disk.evicted_share = self._chance, EVICTED_SHARE
        if is_data:
            disk.appended = self._appended
        return disk

    def _stepping(self, operation: str, _path: str) -> None:
        if self.on_step is not None:
            self.on_step(operation)

    def _appended(self, path: str, data: bytes) -> None:
        self.on_append(self, path, data)

    async def _device(self, path: str) -> None:
        fails, self.fails = self.fails and path.endswith(".log"), False
        await asyncio.sleep(self._chance.uniform(0.0002, 0.001 + self.slow_s))
        if fails:
            self._failed("sync failed", is_wrong=True)
            raise OSError(errno.EIO, "injected into sync")

    def fail_next(
        self,
        operation: str,
        path_part: str,
        counted_as: str,
        error_number: int = errno.EIO,
        **how: Any,
    ) -> None:
        """Let the next such call of this process on such a file fail, of data or metadata."""
        # Where there is no room, nothing but a sync loses anything.
        is_wrong = operation == "sync" or error_number != errno.ENOSPC

        def fired() -> None:
            self._failed(counted_as, is_wrong=is_wrong)

        for disk in (self.data, self.metadata):
            disk.fail_next(operation, error_number, path_part, fired, **how)

    def _failed(self, counted_as: str, *, is_wrong: bool) -> None:
        self._faults[counted_as] += 1
        self.went_wrong += is_wrong

    def damage(
        self, path: str, position: int, data: bytes, disk: "MemoryDisk | None" = None
    ) -> None:
        """Bytes of a file, of data unless `disk` is given, change though nobody writes them."""
        disk = disk or self.data
        before = bytes(disk.content(path))
        disk.damage(path, position, data)
        if len(before) <= SMALL_BYTES:
            written = self.before_damage.get(before, before)
            self.before_damage[bytes(disk.content(path))] = written
        self.damaged.append(path)
        self.went_wrong += 1

    @property
    def is_refused(self) -> bool:
        """Whether what is damaged is something without which no broker starts: its user is asked
        for an empty volume."""
        names = {one.rpartition("/")[2] for one in self.damaged}
        is_map = any(one.startswith(f"{MAPS}/") for one in self.damaged)
        return is_map or bool(names & {META_PROPERTIES, DAMAGED_REPLICAS})

    def lose_clean_mark(self) -> None:
        """The next start reads its logs, whatever ended the process."""
        if self.data.exists(CLEAN_SHUTDOWN):
            self.data.remove(CLEAN_SHUTDOWN)

    def fill_up(self, free_bytes: int) -> None:
        """There is little room left from now on."""
        usage = self.data.usage()
        self.data.capacity_bytes = usage.total_bytes - usage.free_bytes + free_bytes

    def make_room(self) -> None:
        self.data.capacity_bytes = 2**40

    def heal(self) -> None:
        """Nothing fails or waits any more; what is damaged stays so."""
        self.slow_s, self.fails = 0.0, False
        self.make_room()
        self.data.fail_no_more()
        self.metadata.fail_no_more()

    def process_ended(self) -> None:
        """The next process finds everything that was written, synced or not."""
        self.data = self._ready(self.data.after_kill())
        self.metadata = self._ready(self.metadata.after_kill(), is_data=False)

    def power_cut(self) -> None:
        """The next start finds what was synced, and of the rest what chance kept."""
        self.data = self._ready(self.data.after_power_cut(self._chance.getrandbits(32)))
        after = self.metadata.after_power_cut(self._chance.getrandbits(32))
        self.metadata = self._ready(after, is_data=False)

    def drop_caches(self) -> None:
        """The kernel wants its memory back: what is clean is read from the device again."""
        self.data.drop_caches()
        self.metadata.drop_caches()

    def copied(self) -> VolumeCopy:
        """A snapshot, taken at this moment."""
        return VolumeCopy(self.data.copy(), self.metadata.copy())

    def put_back(self, copy: VolumeCopy) -> None:
        """The volume is what it was when the snapshot was taken. No process may be running."""
        self._mounted(copy.data.copy(), copy.metadata.copy())

    def lose_volume(self) -> None:
        """An empty one is in its place. No process may be running."""
        self._mounted(_memory_disk.MemoryDisk(), _memory_disk.MemoryDisk())
        self.damaged.clear()

    def mount_again(self) -> None:
        """Unmount and mount again: what was dirty is written, and the cache is empty."""
        self._mounted(self.data.after_unmount(), self.metadata.after_unmount())

    def _mounted(self, data: "MemoryDisk", metadata: "MemoryDisk") -> None:
        data.capacity_bytes = self.data.capacity_bytes
        self.data.power_off()
        self.metadata.power_off()
        self.data, self.metadata = self._ready(data), self._ready(metadata, is_data=False)
