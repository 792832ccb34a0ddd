"""Too many open files, of the process or the machine: nothing is lost, no disk is given up."""

import asyncio
import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import NoDescriptorError
from chiplog_broker.storage.log import PartitionLog
from tests.storage.conftest import batch_of
from tests.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

EVERYTHING = ("open", "replace", "sync_directory")
NUMBERS = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])


@contextmanager
def shortage(disk: MemoryDisk, number: int, calls: tuple[str, ...] = EVERYTHING) -> Iterator[None]:
    """Inside, nothing that needs a descriptor works; what is open stays open."""

    def fails(*_: Any, **__: Any) -> NoReturn:
        raise OSError(number, os.strerror(number))

    async def fails_later(*_: Any, **__: Any) -> NoReturn:
        fails()

    with pytest.MonkeyPatch.context() as patch:
        for call in calls:
            patch.setattr(disk, call, fails if call == "open" else fails_later)
        yield


def append(log: PartitionLog, value: bytes) -> int:
    return log.append_as_leader(batch_of([value]), 1, 1_000_000).last_offset


async def three_segments(kit: "StorageKit") -> tuple[LogDirectory, PartitionLog]:
    """Each of two records, all of them durable."""
    directory, log = await kit.new_log()
    log.begin_epoch(1)
    for number in range(6):
        append(log, bytes([number]))
        if number in {1, 3}:
            log.roll(1_000_000)
    await log.flush()
    return directory, log


def records_of(log: PartitionLog) -> int:
    offset = log.log_start_offset
    while offset < log.end_offset:
        offset = log.read(offset, 10**6, log.end_offset).next_offset
    return offset


def a_read(log: PartitionLog) -> None:
    log.read(0, 100, 6)


def a_roll(log: PartitionLog) -> None:
    log.roll(1_000_000)


def a_truncation(log: PartitionLog) -> Any:
    return log.truncate_to(1, 1_000_000)


def a_fresh_start(log: PartitionLog) -> Any:
    return log.truncate_fully_and_start_at(4, 1_000_000)


async def done(act: Callable[[PartitionLog], Any], log: PartitionLog) -> None:
    waits = act(log)
    if waits is not None:
        await waits


@NUMBERS
@pytest.mark.parametrize("calls", [EVERYTHING, ("open",)], ids=["all", "open"])
@pytest.mark.parametrize("act", [a_read, a_roll, a_truncation, a_fresh_start])
def test_what_finds_no_descriptor_can_be_tried_again(
    kit: "StorageKit", act: Callable[[PartitionLog], Any], calls: tuple[str, ...], number: int
) -> None:
    async def scenario() -> None:
        directory, log = await three_segments(kit)
        # As of a broker that has just started: finished segments are not open.
        for segment in log._state.segments.as_list()[:-1]:
            segment.close()
        with shortage(kit.disk, number, calls), pytest.raises(NoDescriptorError):
            await done(act, log)
        assert directory.health.failure is None
        assert records_of(log) == 6
        await done(act, log)
        append(log, b"later")
        await log.flush()
        assert records_of(log) == log.durable_end_offset == log.end_offset

    kit.run(scenario())


@NUMBERS
def test_what_a_round_could_not_sync_is_synced_by_the_next(kit: "StorageKit", number: int) -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        log.begin_epoch(1)
        await log.flush()
        append(log, b"a")
        log.roll(1_000_000)
        append(log, b"b")
        with shortage(kit.disk, number), pytest.raises(NoDescriptorError):
            await log.flush()
        assert directory.health.failure is None
        assert log.durable_end_offset == 0, "nothing may be acknowledged"
        append(log, b"c")
        await log.flush()
        assert log.durable_end_offset == 3
        kit.cut_power()
        assert records_of(await kit.reopened()) == 3

    kit.run(scenario())


def test_a_failed_sync_is_final_whatever_its_number(kit: "StorageKit") -> None:
    """A sync opens nothing: who says so of one has lost something."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        log.begin_epoch(1)
        append(log, b"a")
        kit.disk.fail_next("sync", errno.EMFILE)
        with pytest.raises(Exception, match="offline"):
            await log.flush()
        assert directory.health.failure is not None

    kit.run(scenario())


def open_below(limit: int) -> list[int]:
    """Take every descriptor below."""
    taken: list[int] = []
    while True:
        descriptor = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        if descriptor >= limit:
            os.close(descriptor)
            return taken
        taken.append(descriptor)


def test_descriptors_are_kept_for_what_is_closed_at_once(tmp_path: Path) -> None:
    """A real disk: what is there already is refused, what must be written is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = len(list(Path("/proc/self/fd").iterdir())) + 200
    below = limit - 30

    async def scenario() -> None:
        disk = SystemDisk(tmp_path, below)
        disk.open("there", create=True).close()
        await disk.replace("before", b"x")  # its threads and the loop have what they need
        taken = open_below(below)
        try:
            with pytest.raises(OSError, match="Too many open files"):
                disk.open("there")
            await disk.replace("small", b"kept")
            disk.open("segment", create=True).close()
        finally:
            for descriptor in taken:
                os.close(descriptor)
        assert disk.open("small").read(0, 10) == b"kept"
        disk.close()

    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        asyncio.run(scenario())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thread_waits_a_moment_for_a_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SystemDisk(tmp_path)
    real, refusals = os.open, iter(range(3))

    def opens(*given: Any, **more: Any) -> int:
        if next(refusals, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(*given, **more)

    monkeypatch.setattr(os, "open", opens)
    asyncio.run(disk.replace("small", b"kept"))
    assert (tmp_path / "small").read_bytes() == b"kept"


def test_it_is_said_in_a_way_that_makes_every_client_try_again() -> None:
    assert NoDescriptorError.kafka_error == "KAFKA_STORAGE_ERROR"
