"""What a log still has to write out, asked directly: segments, snapshots, names, epochs."""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.checkpoints import OffsetCheckpoint
from chiplog_broker.storage.durability import LogSync
from chiplog_broker.storage.epochs import EpochHistory
from chiplog_broker.storage.errors import (
    DiskFullError,
    NoDescriptorError,
    RecordsTruncatedError,
)
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.names import LOG_START_OFFSETS, TopicPartition
from chiplog_broker.storage.segment import IndexSettings, Segment
from tests.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

NOW = 1_000_000
FOLDER = "orders-0"
SETTINGS = IndexSettings(4096, 2**20)


@dataclass
class Written:
    """As much of a log as writes itself out."""

    disk: MemoryDisk
    end_offset: int = 0

    def __post_init__(self) -> None:
        self.failures: list[OSError] = []
        self.disk.make_directory(FOLDER)
        self.health = DirectoryHealth(self.failures.append)
        self.epochs = EpochHistory()
        self.sync = LogSync(
            self.disk,
            FOLDER,
            self.health,
            self.epochs,
            durable_end_offset=self.end_offset,
            end_offset=lambda: self.end_offset,
        )

    def segment(self, base_offset: int) -> Segment:
        found = Segment(self.disk, FOLDER, base_offset, SETTINGS)
        found.create(NOW)
        return found

    def is_idle(self) -> bool:
        return self.sync.is_all_durable

    def waits(self) -> bool:
        return self.sync.has_finished_segment

    def waits_since_ms(self) -> int | None:
        return self.sync.unsynced_since_ms

    def extend(self) -> None:
        self.end_offset += 3

    def snapshots(self) -> list[str]:
        return [one for one in self.disk.names(FOLDER) if one.endswith(".snapshot")]


def snapshot(offset: int) -> str:
    return f"{offset:020d}.snapshot"


@pytest.fixture
def written(kit: "StorageKit") -> Written:
    return Written(kit.disk)


def test_a_log_begins_with_what_it_was_found_with(kit: "StorageKit") -> None:
    found = Written(kit.disk, 7)
    assert found.sync.durable_end_offset == 7
    assert found.sync.is_all_durable
    assert not found.sync.has_finished_segment
    found.sync.cut_at(5)
    assert found.sync.durable_end_offset == 5


def test_a_round_is_due_for_each_thing_alone(written: Written) -> None:
    async def scenario() -> None:
        sync = written.sync
        steps: tuple[Callable[[], None], ...] = (
            lambda: sync.wrote_to(written.segment(0), NOW),
            lambda: sync.add_snapshot(0, b"s"),
            sync.names_changed,
            lambda: written.epochs.assign(1, 0),
            written.extend,
        )
        for change in steps:
            assert written.is_idle()
            change()
            assert not written.is_idle()
            await sync.flush()
            assert written.is_idle()

    asyncio.run(scenario())


def test_a_finished_segment_or_a_snapshot_is_more_than_the_tail(written: Written) -> None:
    async def scenario() -> None:
        sync = written.sync
        sync.wrote_to(written.segment(0), NOW)
        assert not written.waits()
        sync.wrote_to(written.segment(5), NOW)
        assert written.waits()
        await sync.flush()
        assert not written.waits()
        sync.add_snapshot(5, b"s")
        assert written.waits()

    asyncio.run(scenario())


def test_how_long_something_waits_counts_from_the_first_write(written: Written) -> None:
    async def scenario() -> None:
        sync, first, second = written.sync, written.segment(0), written.segment(5)
        assert written.waits_since_ms() is None
        sync.wrote_to(first, NOW)
        sync.wrote_to(first, NOW + 1)
        sync.wrote_to(second, NOW + 2)
        assert written.waits_since_ms() == NOW
        await sync.flush()
        assert (written.waits_since_ms(), first.unsynced, second.unsynced) == (None, False, False)
        sync.wrote_to(second, NOW + 3)
        assert written.waits_since_ms() == NOW + 3

    asyncio.run(scenario())


def test_snapshots_above_a_cut_are_not_written_and_those_at_it_are(written: Written) -> None:
    async def scenario() -> None:
        written.end_offset = 9
        for offset in (5, 6, 7):
            written.sync.add_snapshot(offset, b"%d" % offset)
        written.sync.cut_at(6)
        written.end_offset = 6
        await written.sync.flush()
        assert written.snapshots() == [snapshot(5), snapshot(6)]

    asyncio.run(scenario())


def test_a_caller_that_waits_for_truncated_records_gets_the_offset(written: Written) -> None:
    async def scenario() -> None:
        written.end_offset = 9
        waiting = asyncio.create_task(written.sync.reach(9))
        await asyncio.sleep(0)
        written.sync.cut_at(6)
        with pytest.raises(RecordsTruncatedError, match="the log was truncated to 6"):
            await waiting

    asyncio.run(scenario())


@pytest.mark.parametrize(("cut_at", "stays"), [(6, False), (7, True)])
def test_a_snapshot_that_is_cut_while_it_is_written_goes_again(
    written: Written, cut_at: int, stays: bool
) -> None:
    """And the directory is written out once more: its name had come already."""

    async def scenario() -> None:
        reached, gate = asyncio.Event(), asyncio.Event()

        async def device(path: str) -> None:
            if ".snapshot" in path:
                reached.set()
                await gate.wait()

        written.end_offset = 9
        written.sync.add_snapshot(7, b"s")
        written.disk.device = device
        flushing = asyncio.create_task(written.sync.flush())
        await reached.wait()
        written.sync.cut_at(cut_at)
        written.end_offset = cut_at
        gate.set()
        await flushing
        assert written.snapshots() == [snapshot(7)] * stays
        assert written.sync.durable_end_offset == cut_at
        assert written.sync.is_all_durable is stays
        await written.sync.flush()
        await written.disk.sync_directory("")
        for seed in range(10):
            after = written.disk.after_power_cut(seed)
            assert after.exists(f"{FOLDER}/{snapshot(7)}") is stays

    asyncio.run(scenario())


def test_without_room_for_a_snapshot_records_count_and_it_is_tried_again(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        replace = written.disk.replace

        async def full(path: str, data: bytes) -> None:
            if path.endswith(".snapshot"):
                raise OSError(errno.ENOSPC, "no room")
            await replace(path, data)

        written.end_offset = 9
        written.sync.add_snapshot(7, b"all of it")
        monkeypatch.setattr(written.disk, "replace", full)
        await written.sync.flush()
        assert written.sync.durable_end_offset == 9
        assert written.health.failure is None
        assert not written.is_idle()
        monkeypatch.undo()
        await written.sync.flush()
        assert written.snapshots() == [snapshot(7)]
        assert written.disk.open(f"{FOLDER}/{snapshot(7)}").read(0, 100) == b"all of it"

    asyncio.run(scenario())


def test_any_other_error_of_a_snapshot_ends_the_directory(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        error = OSError(errno.EIO, "broken")

        async def broken(_path: str, _data: bytes) -> None:
            raise error

        written.sync.add_snapshot(0, b"s")
        monkeypatch.setattr(written.disk, "replace", broken)
        with pytest.raises(Exception, match="broken"):
            await written.sync.flush()
        assert written.health.failure is error

    asyncio.run(scenario())


def test_a_first_round_without_descriptors_is_tried_again(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        def refuses(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, "too many open files")

        segment = written.segment(0)
        segment.close()
        written.sync.wrote_to(segment, NOW)
        written.end_offset = 3
        monkeypatch.setattr(written.disk, "open", refuses)
        with pytest.raises(NoDescriptorError):
            await written.sync.reach(3)
        monkeypatch.undo()
        await written.sync.reach(3)
        assert written.sync.durable_end_offset == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("before", [True, False])
def test_a_round_without_descriptors_leaves_all_it_had_to_the_next(
    written: Written, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """With what was written during the round; names changed before the round, or during it."""

    async def scenario() -> None:
        sync = written.sync
        first, second, third = (written.segment(offset) for offset in (0, 3, 6))
        second.close()
        reached, gate = asyncio.Event(), asyncio.Event()
        synced: list[str] = []

        async def device(path: str) -> None:
            synced.append(path)
            reached.set()
            await gate.wait()

        def refuses(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, "too many open files")

        sync.wrote_to(first, NOW)
        sync.wrote_to(second, NOW)
        sync.add_snapshot(6, b"s")
        written.end_offset = 6
        if before:
            sync.names_changed()
        written.disk.device = device
        monkeypatch.setattr(written.disk, "open", refuses)
        refused = asyncio.create_task(sync.reach(6))
        await reached.wait()
        sync.wrote_to(first, NOW + 1)
        sync.wrote_to(third, NOW + 2)
        if not before:
            sync.names_changed()
        gate.set()
        with pytest.raises(NoDescriptorError):
            await refused
        assert (first.unsynced, second.unsynced, third.unsynced) == (True, True, True)
        assert written.waits_since_ms() == NOW
        monkeypatch.undo()
        synced.clear()
        await sync.flush()
        assert synced == [
            first.log_path,
            second.log_path,
            third.log_path,
            FOLDER,
            f"{FOLDER}/{snapshot(6)}",
        ]
        assert written.is_idle()

    asyncio.run(scenario())


def test_a_snapshot_is_lacking_from_its_offset_on(written: Written) -> None:
    assert not written.sync.lacks_snapshot(9)
    written.sync.add_snapshot(5, b"s")
    assert [written.sync.lacks_snapshot(offset) for offset in (4, 5, 6)] == [False, True, True]


def test_without_room_for_epochs_nothing_is_durable_yet(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async def full(_path: str, _data: bytes) -> None:
            raise OSError(errno.ENOSPC, "no room")

        written.epochs.assign(1, 0)
        written.end_offset = 3
        monkeypatch.setattr(written.disk, "replace", full)
        with pytest.raises(DiskFullError):
            await written.sync.reach(3)
        assert written.sync.durable_end_offset == 0
        monkeypatch.undo()
        await written.sync.reach(3)
        assert written.sync.durable_end_offset == 3

    asyncio.run(scenario())


def test_what_waits_while_a_checkpoint_is_refused_is_written_and_nothing_else(
    kit: "StorageKit",
) -> None:
    """Also an entry that the refused change would have written."""
    first, second, third = (TopicPartition(name, 0) for name in "abc")

    def checkpoint() -> OffsetCheckpoint:
        health = DirectoryHealth(kit.events.disk_failed)
        return OffsetCheckpoint(kit.disk, LOG_START_OFFSETS, health)

    async def scenario() -> None:
        offsets, may_write = checkpoint(), asyncio.Event()
        await offsets.update({first: 1, third: 1})

        async def device(_: str) -> None:
            await may_write.wait()

        kit.disk.device = device
        kit.disk.fail_next("replace", errno.ENOSPC)
        refused = asyncio.create_task(offsets.update({first: 2, second: 2}))
        await asyncio.sleep(0.01)
        later = [
            asyncio.create_task(offsets.put(second, 2)),
            asyncio.create_task(offsets.forget([third])),
        ]
        await asyncio.sleep(0.01)
        may_write.set()
        with pytest.raises(DiskFullError):
            await refused
        await asyncio.gather(*later)
        for one in (offsets, checkpoint()):
            assert [one.get(name) for name in (first, second, third)] == [1, 2, None]

    kit.run(scenario())
