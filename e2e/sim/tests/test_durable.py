"""What a replica would still hold after a power cut that keeps nothing of what was not synced."""

import asyncio
from typing import Any

from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from e2e.sim.disk import memory_disk
from e2e.sim.durable import NOT_READABLE, durable_end

DIRECTORY = "orders-0"


class Subject:
    """A partition's directory on a disk; a segment's name says where it begins."""

    def __init__(self) -> None:
        self.disk: Any = memory_disk().MemoryDisk()
        self.disk.make_directory(DIRECTORY)

    def write(self, segment: int, *offsets: int) -> None:
        file = self.disk.open(self.path(segment), create=True)
        for offset in offsets:
            options = BatchOptions(base_offset=offset)
            file.append(bytes(build_batch([NewRecord(b"%d" % offset)], options)))

    def sync(self, segment: int) -> None:
        asyncio.run(self.disk.open(self.path(segment)).sync())

    def sync_names(self) -> None:
        asyncio.run(self.disk.sync_directory(""))
        asyncio.run(self.disk.sync_directory(DIRECTORY))

    def end(self, log_start_offset: int = 0) -> int:
        return durable_end(self.disk, DIRECTORY, log_start_offset)

    @staticmethod
    def path(segment: int) -> str:
        return f"{DIRECTORY}/{segment:020d}.log"


def test_only_what_was_synced_counts() -> None:
    one = Subject()
    one.write(0, 0, 1)
    one.sync(0)
    one.sync_names()
    one.write(0, 2)
    assert one.end() == 2
    one.sync(0)
    assert one.end() == 3


def test_a_file_without_a_durable_name_is_none() -> None:
    one = Subject()
    one.write(0, 0, 1)
    one.sync(0)
    assert one.end() == 0
    one.sync_names()
    assert one.end() == 2
    one.write(2, 2, 3)
    one.sync(2)
    assert one.end() == 2
    one.sync_names()
    assert one.end() == 4


def test_nothing_counts_after_what_is_missing() -> None:
    one = Subject()
    one.write(0, 0, 1)
    one.write(2, 2)
    one.sync(2)
    one.sync_names()
    assert one.end() == 0
    assert one.end(log_start_offset=2) == 2
    one.sync(0)
    assert one.end() == 3


def test_what_is_written_over_counts_when_it_is_synced_again() -> None:
    """After a truncation the device still holds what was cut off."""
    one = Subject()
    one.write(0, 0, 1)
    one.sync(0)
    one.sync_names()
    file = one.disk.open(one.path(0))
    file.truncate(file.size() // 2)
    assert one.end() == 1
    file.append(bytes(build_batch([NewRecord(b"x")], BatchOptions(base_offset=1))))
    assert one.end() == 1
    one.sync(0)
    assert one.end() == 2


def test_a_compacted_segment_is_as_safe_under_its_name_before() -> None:
    one = Subject()
    one.disk.open(f"{one.path(0)}.swap", create=True)
    file = one.disk.open(f"{one.path(0)}.swap")
    file.append(bytes(build_batch([NewRecord(b"x")], BatchOptions(base_offset=1))))
    asyncio.run(file.sync())
    one.sync_names()
    one.disk.rename(f"{one.path(0)}.swap", one.path(0))
    assert one.end() == 2


def test_a_replica_that_is_not_there_has_nothing() -> None:
    assert durable_end(memory_disk().MemoryDisk(), DIRECTORY, 0) == 0


def test_of_a_log_that_does_not_read_nobody_can_say_how_far_it_goes() -> None:
    """As long as all its bytes are on the device."""
    one = Subject()
    one.write(0, 0, 1, 2)
    one.sync(0)
    one.sync_names()
    size_bytes = len(one.disk.content(one.path(0))) // 3
    one.disk.damage(one.path(0), size_bytes + 16, b"\xff")  # the magic byte of the second batch
    assert one.end() == NOT_READABLE
    one.write(0, 3)
    assert one.end() == 1
