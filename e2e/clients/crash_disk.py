"""A disk whose power can be cut: an ext4 file system in a file.

What a program wrote but did not sync is in the kernel's memory only, not yet in the
image. So the image, copied while the file system is mounted and its writers are dead,
is what a machine would find after its power came back; mounting the copy lets ext4
recover as it would then. Unlike pulling a plug it says nothing about a disk that lies
about having written.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster.shell import CommandFailed, run

SIZE = "1G"
# ext4 would otherwise write by itself every five seconds, and spare what was not synced.
OPTIONS = "loop,noatime,commit=600"


class CrashDisk:
    """Mounted at `path` inside the `with` block; needs root."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "disk"
        self.image = directory / "disk.ext4"

    @staticmethod
    def refusal(directory: Path) -> str:
        """Why there can be no such disk here; empty where there can."""
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
        """Forget everything that was not synced. The processes that used the disk must have
        ended."""
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
