"""The file systems that brokers use, ext4 and xfs, in sparse files.

Each is mounted from a loop device; after the `with` block it is unmounted and its file deleted.
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
# mkfs.xfs demands at least 300 MB. The file is sparse, so it takes only what is written.
SIZE_BYTES: Final = 512 * 2**20
OPTIONS: Final = {
    # The default of ext4 is commit=5: it would write unsynced data to the image after five seconds.
    "ext4": "loop,noatime,discard,commit=600",
    # nouuid: a mount namespace that another program created in the meantime may keep the image from
    # before a power cut mounted, and xfs refuses a second file system with the same UUID.
    # allocsize: without it growing files get more blocks than they need, which deleted files had
    # before.
    "xfs": "loop,noatime,discard,nouuid,allocsize=4k",
}
# The ioctl EXT4_IOC_SHUTDOWN, called XFS_IOC_GOINGDOWN in xfs. Its argument 2 means: stop all
# writes without flushing the journal.
SHUTDOWN: Final = 0x8004587D
WITHOUT_LOG_FLUSH: Final = struct.pack("I", 2)
# ext4: all metadata is at the beginning of the device, and written by mkfs and not later.
MAKE: Final = {
    "ext4": (
        *("mkfs.ext4", "-q", "-F", "-J", "size=8", "-N", "8192"),
        *("-E", "packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0"),
    ),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}


def refusal(kind: str, directory: Path) -> str:
    """The reason why this machine cannot mount this kind of file system; "" if it can."""
    if os.geteuid() != 0:
        return f"only root can mount {kind}"
    try:
        with FileSystem(kind, directory / "tried"):
            return ""
    except (CommandFailed, Refused) as failed:
        return f"no {kind} can be mounted here: {failed}"


class FileSystem:
    """A file system that is mounted at `path` while its `with` block runs; needs root."""

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
        """Make and mount the file system; `entered` collects what undoes it."""
        self.path.mkdir(parents=True, exist_ok=True)
        entered.callback(self.image.unlink, missing_ok=True)
        entered.enter_context(Undone(*self._undoing()))
        self._make()
        self.mount()

    def _undoing(self) -> Sequence[Sequence[str]]:
        """The commands that unmount it, which run even if this process is killed."""
        return [unmounted(self.path)]

    def _make(self) -> None:
        """Create the image file, and a file system in it."""
        run("truncate", "--size", str(SIZE_BYTES), str(self.image))
        run(*MAKE[self.kind], str(self.image))

    def _reserve(self, image: Path) -> None:
        """Allocate blocks in the image for what must always be writable; called before it is
        mounted.

        Nothing here; see `DroppingFileSystem`.
        """

    def mount(self) -> None:
        run("mount", "-o", OPTIONS[self.kind], str(self.image), str(self.path))

    def unmount(self) -> None:
        """Unmount it. The processes that used it must have ended."""
        run("umount", str(self.path))

    def forget_cache(self) -> None:
        """Mount it again, so that reads come from the device. No process may use it."""
        self.unmount()
        self.mount()

    def cut_power(self) -> None:
        """Discard all data that was not synced. The processes that used it must have ended.

        Unsynced data is only in the kernel's memory. After the shutdown the file system writes
        nothing more to the image, so the copy made then is what a power failure would leave.
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
    """A file system whose device drops writes to new blocks from `fill` until `make_room`.

    The image is a sparse file on a tmpfs. While the tmpfs is full, a write to a block of the image
    that is not allocated yet fails, and the kernel drops the data: mostly that of files. Space for
    an xfs log, and for journal, bitmaps and inodes of ext4, is reserved: without it the file system
    would shut down.
    """

    ROOM: Final = "2G"
    """Size of the tmpfs while it is not filled."""

    def __init__(self, kind: str, directory: Path) -> None:
        super().__init__(kind, directory)
        self._reserved = range(0)
        self.device = directory / "device"
        self.path = self.device / "mounted"
        self.image = self.device / f"image.{kind}"

    def _enter(self, entered: ExitStack) -> None:
        """Mount a tmpfs for the image, then make and mount the file system in it."""
        self.device.mkdir(parents=True, exist_ok=True)
        # Registered first, so that it is undone even if a later step or its cleanup fails.
        entered.enter_context(Undone(unmounted(self.device)))
        run("mount", "-t", "tmpfs", "-o", f"size={self.ROOM}", "none", str(self.device))
        # Brokers with another boot id run in slave mount namespaces: only from a shared mount does
        # unmounting reach them. Otherwise they would keep the file system and its cache alive.
        run("mount", "--make-shared", str(self.device))
        super()._enter(entered)

    def _undoing(self) -> Sequence[Sequence[str]]:
        """The commands that unmount the file system, also if this process is killed."""
        # First make the tmpfs large again: unmounting retries failing writes without end.
        return [resized(self.device, self.ROOM), *super()._undoing()]

    def _make(self) -> None:
        """Create the file system, and allocate the blocks of its metadata in the image.

        Writes to these blocks succeed even while the tmpfs is full.
        """
        super()._make()
        self._reserved = {"ext4": ext4_metadata, "xfs": xfs_log}[self.kind](self.image)
        self._reserve(self.image)

    def _reserve(self, image: Path) -> None:
        """Allocate the metadata's range of bytes in an image file."""
        # Allocating does not change bytes that are written already.
        with image.open("r+b") as file:
            os.posix_fallocate(file.fileno(), self._reserved.start, len(self._reserved))

    def mount(self) -> None:
        """Mount the file system, and release the blocks of deleted files."""
        super().mount()
        self._trim()

    def _trim(self) -> None:
        """Release the blocks of deleted files from the image, so that new files cannot use them.

        While it is mounted, the option `discard` does so with files that are deleted then.
        """
        run("fstrim", str(self.path))

    def fill(self) -> None:
        """Fill the device, so that it drops all writes to new blocks."""
        # Freezing writes the journal to its final blocks. If these could not be allocated, the
        # whole file system would shut down, or become read-only.
        for how in ("--freeze", "--unfreeze"):
            run("fsfreeze", how, str(self.path))
        self._trim()
        self.stay_full()

    def stay_full(self) -> None:
        """Fill the device again, after blocks were released since `fill`.

        It shrinks the tmpfs to the size in use. Raises `TimeoutError` if that fails 20 times.
        """
        for _ in range(20):
            usage = os.statvfs(self.device)
            if usage.f_bfree == 0:
                return
            used_bytes = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
            with suppress(CommandFailed):  # more has been written in the meantime
                run(*resized(self.device, str(used_bytes)))
        raise TimeoutError(f"the tmpfs {self.device} still has free space after 20 attempts")

    def make_room(self) -> None:
        """Let the device accept all writes again."""
        run(*resized(self.device, self.ROOM))


def ext4_metadata(image: Path) -> range:
    """The byte range of a new ext4 image with its metadata and journal: all before the free
    blocks."""
    described = run("dumpe2fs", str(image))
    free = min(int(one) for one in re.findall(r"^  Free blocks: (\d+)", described, re.MULTILINE))
    (block_bytes,) = re.findall(r"^Block size: +(\d+)", described, re.MULTILINE)
    return range(free * int(block_bytes))


def xfs_log(image: Path) -> range:
    """The byte range of the log in an xfs image.

    Its address has the number of its allocation group in the upper bits, and the block
    block_in_group the group in the lower ones.
    """
    wanted = ("logstart", "logblocks", "agblocks", "agblklog", "blocksize")
    described = run("xfs_db", "-r", "-c", "sb 0", "-c", f"p {' '.join(wanted)}", str(image))
    start, blocks, group_blocks, group_bits, block_bytes = (
        int(re.findall(rf"^{name} = (\d+)", described, re.MULTILINE)[0]) for name in wanted
    )
    group, block_in_group = divmod(start, 1 << group_bits)
    first = (group * group_blocks + block_in_group) * block_bytes
    return range(first, first + blocks * block_bytes)


def unmounted(path: Path) -> Sequence[str]:
    """The command that unmounts a path, even while it is in use."""
    return ("umount", "--lazy", str(path))


def resized(path: Path, size: str) -> Sequence[str]:
    """The command that changes the size of a mounted tmpfs."""
    return ("mount", "-o", f"remount,size={size}", str(path))
