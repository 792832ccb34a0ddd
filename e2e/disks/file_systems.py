"""File systems as brokers have them, ext4 and xfs, in sparse files.

Each is mounted from a loop device, and gone with its file after the `with` block.
"""

import fcntl
import os
import re
import struct
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from e2e.cluster import packages
from e2e.cluster.console import Refused
from e2e.cluster.shell import CommandFailed, run
from e2e.disks.undone import Undone

KINDS: Final = ("ext4", "xfs")
PACKAGES: Final = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}
# xfs takes no less than 300 MB. The file is sparse.
SIZE_BYTES: Final = 512 * 2**20
OPTIONS: Final = {
    # It would otherwise write by itself every five seconds, and spare what was not synced.
    "ext4": "loop,noatime,discard,commit=600",
    # A mount namespace that was made meanwhile, by whomever, keeps an image mounted as it was
    # before a power cut, and xfs takes none of the same UUID beside it by default. Files that
    # grow have no more blocks than they need: it would take them from files that are gone.
    "xfs": "loop,noatime,discard,nouuid,allocsize=4k",
}
# EXT4_IOC_SHUTDOWN, which xfs has as XFS_IOC_GOINGDOWN; how: the log is not flushed either.
SHUTDOWN: Final = 0x8004587D
WITHOUT_LOG_FLUSH: Final = struct.pack("I", 2)
# Whatever a file system knows of itself lies in the beginning, and is written when it is made.
MAKE: Final = {
    "ext4": (
        *("mkfs.ext4", "-q", "-F", "-J", "size=8", "-N", "8192"),
        *("-E", "packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0"),
    ),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}


def refusal(kind: str, directory: Path) -> str:
    """Why there can be no such file system here; empty where there can."""
    if os.geteuid() != 0:
        return f"{kind} can be mounted by root only"
    try:
        with FileSystem(kind, directory / "tried"):
            return ""
    except (CommandFailed, Refused) as failed:
        return f"no {kind} can be mounted here: {failed}"


class FileSystem:
    """Mounted at `path` inside the `with` block; needs root."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.path = directory / "mounted"
        self.image = directory / f"image.{kind}"
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if not packages.present(MAKE[self.kind][0]):
            packages.from_debian(PACKAGES[self.kind])
        with ExitStack() as entered:
            self._enter(entered)
            self._open = entered.pop_all()
        return self

    def _enter(self, entered: ExitStack) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        entered.callback(self.image.unlink, missing_ok=True)
        entered.enter_context(Undone(*self._undoing()))
        self._make()
        self.mount()

    def _undoing(self) -> Sequence[Sequence[str]]:
        return [unmounted(self.path)]

    def _make(self) -> None:
        run("truncate", "--size", str(SIZE_BYTES), str(self.image))
        run(*MAKE[self.kind], str(self.image))

    def _reserve(self, image: Path) -> None:
        """Give room in this file to what must always have some. It is not mounted yet."""

    def mount(self) -> None:
        run("mount", "-o", OPTIONS[self.kind], str(self.image), str(self.path))

    def unmount(self) -> None:
        """The processes that used it have ended."""
        run("umount", str(self.path))

    def forget_cache(self) -> None:
        """What is read from now on comes from the device. Nothing may be in use."""
        self.unmount()
        self.mount()

    def cut_power(self) -> None:
        """Forget everything that was not synced. The processes that used it must have ended.

        What a program wrote but did not sync is in the kernel's memory only, not yet in the file.
        From the shutdown on nothing more of it gets there: the copy is of one moment.
        """
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(directory, SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(directory)
        after = self.image.with_suffix(".after")
        run("cp", "--sparse=always", str(self.image), str(after))
        self._reserve(after)
        self.unmount()
        after.replace(self.image)
        self.mount()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)


class DroppingFileSystem(FileSystem):
    """One whose device drops what it is given, from `fill` to `make_room`.

    The file lies on a tmpfs. Where that is full, no block gets room that has none yet: those of
    files' data, mostly. The log of an xfs, and journal, bitmaps and inodes of an ext4, have room
    reserved: the file system would end without.
    """

    ROOM: Final = "2G"

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(kind, directory)
        self._reserved = range(0)
        self.device = directory / "device"
        self.path = self.device / "mounted"
        self.image = self.device / f"image.{kind}"

    def _enter(self, entered: ExitStack) -> None:
        self.device.mkdir(parents=True, exist_ok=True)
        # Registered first, so that it is undone also where a later step or its cleanup fails.
        entered.enter_context(Undone(unmounted(self.device)))
        run("mount", "-t", "tmpfs", "-o", f"size={self.ROOM}", "none", str(self.device))
        # Unmounting has to reach the slave mount namespaces of processes with another boot id too:
        # otherwise they would keep the file system, with its cache, alive.
        run("mount", "--make-shared", str(self.device))
        super()._enter(entered)

    def _undoing(self) -> Sequence[Sequence[str]]:
        # What a file system still has to write when it is unmounted it tries again without end.
        return [resized(self.device, self.ROOM), *super()._undoing()]

    def _make(self) -> None:
        super()._make()
        self._reserved = {"ext4": ext4_metadata, "xfs": xfs_log}[self.kind](self.image)
        self._reserve(self.image)

    def _reserve(self, image: Path) -> None:
        # Nothing that is written already changes.
        with image.open("r+b") as file:
            os.posix_fallocate(file.fileno(), self._reserved.start, len(self._reserved))

    def mount(self) -> None:
        super().mount()
        self._trim()

    def _trim(self) -> None:
        """Blocks of files that are gone have no room: what comes next would find it there.

        Those of files that are deleted while it is mounted lose theirs soon, by `discard`.
        """
        run("fstrim", str(self.path))

    def fill(self) -> None:
        """There is no room left on the device."""
        # What is in the journal only has no place of its own yet; without one the whole file
        # system would end, and be read-only.
        for how in ("--freeze", "--unfreeze"):
            run("fsfreeze", how, str(self.path))
        self._trim()
        self.stay_full()

    def stay_full(self) -> None:
        """Nor is there any of what was deleted since `fill`."""
        for _ in range(20):
            usage = os.statvfs(self.device)
            if usage.f_bfree == 0:
                return
            used_bytes = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
            with suppress(CommandFailed):  # something has been written meanwhile
                run(*resized(self.device, str(used_bytes)))
        raise TimeoutError(f"{self.device} does not become full")

    def make_room(self) -> None:
        run(*resized(self.device, self.ROOM))


def ext4_metadata(image: Path) -> range:
    """The range of bytes of a new ext4 that holds its metadata, journal included."""
    described = run("dumpe2fs", str(image))
    free = min(int(one) for one in re.findall(r"^  Free blocks: (\d+)", described, re.MULTILINE))
    (block_bytes,) = re.findall(r"^Block size: +(\d+)", described, re.MULTILINE)
    return range(free * int(block_bytes))


def xfs_log(image: Path) -> range:
    """The bytes of the log of an xfs. Its address has the allocation group in its upper bits."""
    wanted = ("logstart", "logblocks", "agblocks", "agblklog", "blocksize")
    described = run("xfs_db", "-r", "-c", "sb 0", "-c", f"p {' '.join(wanted)}", str(image))
    start, blocks, group_blocks, group_bits, block_bytes = (
        int(re.findall(rf"^{name} = (\d+)", described, re.MULTILINE)[0]) for name in wanted
    )
    group, within = divmod(start, 1 << group_bits)
    first = (group * group_blocks + within) * block_bytes
    return range(first, first + blocks * block_bytes)


def unmounted(path: Path) -> Sequence[str]:
    """Also where it is in use still."""
    return ("umount", "--lazy", str(path))


def resized(path: Path, size: str) -> Sequence[str]:
    return ("mount", "-o", f"remount,size={size}", str(path))
