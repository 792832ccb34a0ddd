"""The machine's own disk, through the port."""

import asyncio
import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chiplog_broker.ports.disk import SyncFailedError
from chiplog_broker.ports.system_disk import SystemDisk, SystemFile


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(tmp_path / "data")


def test_appending_and_reading(disk: SystemDisk) -> None:
    file = disk.open("a", create=True)
    assert (file.append(b"hello"), file.append(memoryview(b" world"))) == (0, 5)
    assert file.size() == 11
    assert file.read(0, 5) == b"hello"
    assert file.read(6, 100) == b"world"
    assert file.read(50, 10) == b""
    buffer = memoryview(bytearray(20))
    assert file.read_into(6, buffer) == 5
    assert bytes(buffer[:5]) == b"world"


def test_a_large_append_is_complete(disk: SystemDisk) -> None:
    data = os.urandom(3 * 2**20 + 7)
    file = disk.open("a", create=True)
    assert (file.append(b"x"), file.append(data)) == (0, 1)
    assert file.size() == 1 + len(data)
    assert file.read(1, len(data) + 1) == data


def test_writing_over_and_cutting(disk: SystemDisk) -> None:
    file = disk.open("a", create=True)
    file.append(b"0123456789")
    file.write_at(8, b"ABCD")
    assert (file.size(), file.read(0, 20)) == (12, b"01234567ABCD")
    file.truncate(3)
    assert (file.size(), file.append(b"x")) == (3, 3)
    file.close()
    again = disk.open("a")
    assert (again.size(), again.read(0, 10)) == (4, b"012x")


def test_opening_what_is_not_there(disk: SystemDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")


def test_names(disk: SystemDisk) -> None:
    disk.make_directory("t-0")
    disk.make_directory("t-0")
    disk.open("t-0/b", create=True).close()
    disk.open("t-0/a", create=True).close()
    assert disk.names("") == ["t-0"]
    assert disk.names("t-0") == ["a", "b"]
    assert disk.names("none") == []
    disk.rename("t-0/a", "t-0/c")
    assert disk.names("t-0") == ["b", "c"]
    assert disk.exists("t-0/c")
    assert not disk.exists("t-0/a")
    disk.rename("t-0", "t-1")
    disk.remove("t-1/b")
    disk.remove("t-1/b")
    disk.remove("t-1")
    assert disk.names("") == []


def test_replacing_and_syncing(disk: SystemDisk) -> None:
    async def scenario() -> None:
        await disk.replace("f", b"one")
        await disk.replace("f", b"two")
        assert disk.open("f").read(0, 10) == b"two"
        assert disk.names("") == ["f"]
        file = disk.open("f")
        await asyncio.gather(*(file.sync() for _ in range(5)))
        await disk.sync_directory("")

    asyncio.run(scenario())


def test_a_file_is_closed_after_its_last_sync(disk: SystemDisk) -> None:
    """Else the descriptor could be another file's by the time the kernel looks at it."""

    async def scenario() -> None:
        file = disk.open("a", create=True)
        descriptor = file.fileno()
        assert descriptor is not None
        syncing = asyncio.create_task(file.sync())
        await asyncio.sleep(0)
        file.close()
        os.fstat(descriptor)
        await syncing
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
        file.close()

    asyncio.run(scenario())


def test_a_sync_that_fails_is_known_from_a_write_that_fails() -> None:
    """By its type: the number may be the same."""
    reading, writing = os.pipe()  # cannot be synced
    with ThreadPoolExecutor(1) as pool:
        file = SystemFile(writing, pool)
        with pytest.raises(SyncFailedError) as failed:
            asyncio.run(file.sync())
        file.close()
    os.close(reading)
    assert failed.value.errno == errno.EINVAL
    assert failed.value.strerror == os.strerror(errno.EINVAL)


def test_a_write_that_fails_half_way_is_cut_back(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("a", create=True)
    file.append(b"before")
    whole = os.pwrite
    calls = []

    def half(descriptor: int, data: bytes, position: int) -> int:
        calls.append(position)
        if len(calls) == 1:
            return whole(descriptor, data[:3], position)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="full"):
        file.append(b"0123456789")
    monkeypatch.undo()
    assert calls == [6, 9]
    assert (file.size(), file.read(0, 100)) == (6, b"before")
    assert os.fstat(file.fileno() or -1).st_size == 6


def test_a_part_that_cannot_be_cut_back_is_no_full_disk(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file does not have its old size, so nobody may go on with it."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    file = disk.open("a", create=True)
    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(os, "ftruncate", full)
    with pytest.raises(OSError, match="not cut back: full") as failed:
        file.append(b"0123456789")
    assert failed.value.errno == errno.EIO


def test_without_a_descriptor_for_the_directory_nothing_is_replaced(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(disk.replace("small", b"old"))
    opens = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(errno.EMFILE, "too many open files")
        return opens(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr("chiplog_broker.ports.system_disk.DESCRIPTOR_PAUSE_S", 0)
    with pytest.raises(OSError, match="too many"):
        asyncio.run(disk.replace("small", b"new"))
    assert disk.open("small").read(0, 10) == b"old"


def test_usage(disk: SystemDisk) -> None:
    usage = disk.usage()
    assert 0 < usage.free_bytes < usage.total_bytes


def test_the_lock_keeps_other_processes_out(disk: SystemDisk, tmp_path: Path) -> None:
    disk.lock(".lock")
    with pytest.raises(BlockingIOError):
        disk.lock(".lock")
    attempt = (
        "import sys; from pathlib import Path;"
        "from chiplog_broker.ports.system_disk import SystemDisk;"
        "SystemDisk(Path(sys.argv[1])).lock('.lock')"
    )
    command = [sys.executable, "-c", attempt, str(tmp_path / "data")]
    assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    disk.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
