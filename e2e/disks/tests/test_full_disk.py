"""A full file system takes nothing away: a write that finds no space fails."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from chiplog_broker.ports.disk import SyncFailedError
from chiplog_broker.ports.system_disk import SystemDisk
from e2e import measured
from e2e.chaos.disk_faults import fill
from e2e.disks.file_systems import FileSystem

pytestmark = pytest.mark.clients

BEFORE = b"before" * 1_000
# More than what is left at the end of the file's last block.
MORE = bytes(10 * 2**20)
LEFT_BYTES = 2**20


def test_what_finds_no_room_changes_nothing(kind: str, tmp_path: Path) -> None:
    with FileSystem(kind, tmp_path / "one") as one:
        disk = SystemDisk(one.path / "data")
        file = disk.open("log", create=True)
        file.append(BEFORE)
        asyncio.run(file.sync())
        asyncio.run(disk.replace("checkpoint", b"old"))
        with (one.path / "filler").open("wb") as filler:
            fill(filler)
            os.ftruncate(filler.fileno(), filler.seek(0, os.SEEK_END) - LEFT_BYTES)
            os.fsync(filler.fileno())
        takes_a_part(file.fileno() or -1)
        with pytest.raises(OSError, match="No space left on device"):
            file.append(MORE)
        with pytest.raises(OSError, match="No space left on device") as refused:
            asyncio.run(disk.replace("checkpoint", MORE))
        assert refused.value.errno == errno.ENOSPC
        assert not isinstance(refused.value, SyncFailedError), "a checkpoint may be tried again"
        assert disk.names("") == ["checkpoint", "log"]
        asyncio.run(file.sync())
        asyncio.run(disk.sync_directory(""))
        file.close()
        disk.close()
        one.forget_cache()
        disk = SystemDisk(one.path / "data")
        again, checkpoint = disk.open("log"), disk.open("checkpoint")
        assert (again.read(0, len(BEFORE) + 1), checkpoint.read(0, 9)) == (BEFORE, b"old")
        again.close()
        checkpoint.close()
        disk.close()


def takes_a_part(descriptor: int) -> None:
    """The file system does write a part of what does not fit; it is taken back here."""
    written = os.pwrite(descriptor, MORE, len(BEFORE))
    os.ftruncate(descriptor, len(BEFORE))
    measured.note(f"a full file system takes {written} of {len(MORE)} bytes of a write")
    assert 0 < written < len(MORE)
