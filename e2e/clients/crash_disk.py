"""A disk whose power can be cut: an ext4 file system in a file.

Data that a program wrote but did not sync is only in the kernel's memory, not in the image. So
a copy of the image, made while the file system is mounted and all writers are dead, is what a
machine would find after a power failure. Mounting the copy lets ext4 recover as it would then.
Unlike a real power failure this cannot reveal a disk that reports a sync too early.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster.shell import CommandFailed, run

SIZE = "1G"
# The default of ext4 is commit=5: it would write unsynced data to the image after five seconds.
OPTIONS = "loop,noatime,commit=600"


class CrashDisk:
    """A disk that is mounted at `path` while its `with` block runs; needs root."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "disk"
        self.image = directory / "disk.ext4"

    @staticmethod
    def refusal(directory: Path) -> str:
        """The reason why this machine cannot mount such a disk; "" if it can."""
        if os.geteuid() != 0:
            return "a disk image can be mounted by root only"
        try:
            with CrashDisk(directory):
                return ""
        except CommandFailed as failed:
            return f"no disk image can be mounted here: {failed}"

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        run("truncate", "--size", SIZE, str(self.image))
        run("mkfs.ext4", "-q", "-F", str(self.image))
        run("mount", "-o", OPTIONS, str(self.image), str(self.path))
        return self

    def cut_power(self) -> None:
        """Discard all data that was not synced.

        The processes that used the disk must have ended. Unmounting would write the unsynced data,
        so the image is copied before, and the copy takes its place.
        """
        after = self.image.with_suffix(".after")
        run("cp", "--sparse=always", str(self.image), str(after))
        run("umount", str(self.path))
        after.replace(self.image)
        run("mount", "-o", OPTIONS, str(self.image), str(self.path))

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        run("umount", "--lazy", str(self.path))
        self.image.unlink()
