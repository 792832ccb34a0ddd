"""What a start makes of bytes that may be in the page cache only, and of a log that it cut."""

import asyncio
import errno
import random
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.directory_report import Verdict
from chiplog_broker.storage.errors import DirectoryOfflineError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.producer_snapshot import decode_snapshot
from chiplog_wire.records.batch import set_place
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
RECORDS = 20


async def write(
    kit: "StorageKit", make_batch: "MakeBatch", *, checkpointed: int = 4, segment_bytes: int = 500
) -> tuple[LogDirectory, PartitionLog]:
    """As many records as batches, all durable, of which a checkpoint covers some."""
    kit.config = LogConfig(segment_bytes=segment_bytes)
    directory, log = await kit.new_log()
    for number in range(RECORDS):
        log.append_as_leader(make_batch([b"%02d" % number]), 1, NOW)
        await log.make_durable(log.end_offset)
        if log.end_offset == checkpointed:
            await directory.checkpoint({kit.orders: checkpointed})
    return directory, log


def flip(kit: "StorageKit", path: str, byte: int) -> None:
    before = kit.disk.content(path)[byte]
    kit.disk.damage(path, byte, bytes([before ^ 1]))


@pytest.mark.parametrize("seed", range(30))
def test_what_a_failed_sync_lost_is_written_again(
    kit: "StorageKit", make_batch: "MakeBatch", seed: int
) -> None:
    """The next process reads it from the page cache, and only then promises to have it."""
    _, log = kit.run(write(kit, make_batch))
    kit.disk.chance = random.Random(seed)  # noqa: S311 - not for secrets
    log.append_as_leader(make_batch([b"lost"]), 1, NOW)
    kit.disk.fail_next("sync", errno.EIO, ".log")
    with pytest.raises(DirectoryOfflineError):
        kit.run(log.make_durable(log.end_offset))

    kit.kill()
    promised = kit.run(kit.reopened()).durable_end_offset
    assert promised >= RECORDS

    kit.cut_power(seed)
    assert kit.run(kit.reopened()).end_offset >= promised


def test_a_clean_start_writes_nothing_again(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    directory, _ = kit.run(write(kit, make_batch))
    kit.run(directory.close({}, broker_epoch=1))
    kit.kill()
    steps: list[str] = []
    kit.disk.stepping = lambda operation, _path: steps.append(operation)

    kit.run(kit.open())

    assert "rename" not in steps


def test_only_what_lies_above_the_recovery_point_is_written_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """It becomes a segment of its own; what is durable keeps its place and its bytes."""
    _, log = kit.run(write(kit, make_batch, checkpointed=18))
    active = log._state.segments.active
    before = {
        name: bytes(kit.disk.content(kit.path(name)))
        for name in kit.disk.names(kit.orders.directory)
        if name.endswith(".log")
    }
    kit.kill()
    renamed: list[str] = []
    kit.disk.stepping = lambda operation, path: (
        renamed.append(path) if operation == "rename" else None
    )

    again = kit.run(kit.open()).logs[kit.orders]

    assert active.base_offset < 18
    assert renamed == [kit.path(f"{18:020d}.log.tmp")]
    last = f"{active.base_offset:020d}.log"
    for name, content in before.items():
        now = bytes(kit.disk.content(kit.path(name)))
        assert now == content if name != last else content.startswith(now)
    assert again.end_offset == RECORDS
    values = bytes(kit.disk.content(kit.path(last)))
    assert values + bytes(kit.disk.content(kit.path(f"{18:020d}.log"))) == before[last]


@pytest.mark.parametrize("checkpointed", [4, 16])
def test_a_power_cut_at_every_step_of_writing_again(
    kits: "Callable[[], StorageKit]",
    make_batch: "MakeBatch",
    power_cut: type[Exception],
    checkpointed: int,
) -> None:
    """The next start finds old bytes, new ones or both, and loses nothing that was durable."""
    for step in range(1, 80):
        machine = kits()
        machine.run(write(machine, make_batch, checkpointed=checkpointed))
        machine.kill()
        machine.disk.cut_power_at(step)
        with suppress(power_cut):
            machine.run(machine.open())
        machine.cut_power(step)
        log = machine.run(machine.reopened())
        assert log.end_offset == RECORDS, step
        assert (
            machine.run(machine.open_again()).high_watermark_before_truncation(machine.orders)
            is None
        )


def test_what_no_checkpoint_covers_is_written_again_under_its_own_names(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    _, log = kit.run(write(kit, make_batch, checkpointed=0))
    count = log.segment_count
    kit.kill()
    renamed: list[str] = []
    kit.disk.stepping = lambda operation, path: (
        renamed.append(path) if operation == "rename" and ".log" in path else None
    )

    assert kit.run(kit.open()).logs[kit.orders].segment_count == count == len(renamed)


def test_a_single_record_that_no_checkpoint_covers_is_written_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def begin() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 1, NOW)
        await log.flush()

    kit.run(begin())
    kit.kill()
    renamed: list[str] = []
    kit.disk.stepping = lambda operation, path: (
        renamed.append(path) if operation == "rename" and ".log" in path else None
    )
    kit.run(kit.open())
    assert renamed == [kit.path(f"{0:020d}.log.tmp")]


def test_the_segments_of_a_split_are_sealed_but_for_the_newest(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    for checkpointed, count in ((4, 4), (18, 4)):
        kit.run(write(kit, make_batch, checkpointed=checkpointed))
        kit.kill()
        log = kit.run(kit.open()).logs[kit.orders]
        assert [one.sealed for one in log._state.segments] == [True] * (count - 1) + [False]
        assert {one.created_ms for one in log._state.segments} == {kit.clock.now_ms()}
        for one in list(log._state.segments)[:-1]:
            assert one.indexes_are_complete()
        kit.disk = type(kit.disk)()


@pytest.mark.parametrize("is_all_torn", [False, True])
def test_old_bytes_behind_a_split_may_be_torn(
    kit: "StorageKit", make_batch: "MakeBatch", *, is_all_torn: bool
) -> None:
    """They were written again; the power failed before they were taken away."""
    kit.run(write(kit, make_batch))
    path = kit.path(f"{0:020d}.log")
    before = bytes(kit.disk.content(path))
    kit.kill()
    kit.run(kit.open())
    split = len(kit.disk.content(path))
    torn_bytes = len(before) - split if is_all_torn else 100
    kit.disk.content(path)[:] = before[:-torn_bytes] + bytes(torn_bytes)
    kit.kill()

    directory = kit.run(kit.open())

    assert directory.quarantined == {}
    log = directory.logs[kit.orders]
    assert (log.end_offset, log.segment_count) == (RECORDS, 4)
    data = log.read(0, 10_000, RECORDS).read()
    assert bytes(data) == before[: len(data)]


def test_the_producers_of_a_split_are_those_that_wrote_below_it(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def begin() -> None:
        directory, log = await kit.new_log()
        for number in range(8):
            mine = Producer(producer_id=7, epoch=0, base_sequence=number)
            log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW)
            await log.make_durable(log.end_offset)
            if number == 3:
                await directory.checkpoint({kit.orders: 4})

    kit.run(begin())
    kit.kill()
    kit.run(kit.open())
    snapshot = bytes(kit.disk.content(kit.path(f"{4:020d}.snapshot")))
    ((producer_id, entry),) = decode_snapshot(snapshot).producers
    assert producer_id == 7
    assert [one.last_offset for one in entry.batches] == [0, 1, 2, 3]


def test_a_log_that_is_written_over_itself_keeps_its_bytes(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Piece by piece, and whatever a sync of the last process lost."""

    async def begin() -> None:
        kit.config = LogConfig()
        directory, log = await kit.new_log()
        for number in range(7):
            log.append_as_leader(make_batch([b"%d" % number * 500_000]), 1, NOW)
            if number == 0:
                await log.flush()
                await directory.checkpoint({kit.orders: 1})

    kit.run(begin())
    path = kit.path(f"{0:020d}.log")
    before = bytes(kit.disk.content(path))
    kit.kill()
    usage = kit.disk.usage()
    kit.disk.capacity_bytes = usage.total_bytes - usage.free_bytes + 1_000
    written: list[str] = []
    kit.disk.stepping = lambda operation, path: (
        written.append(path) if operation == "write_at" else None
    )

    kit.disk.fail_next("sync", errno.EIO, path)

    directory = kit.run(kit.open())

    assert written == [path] * 3
    assert bytes(kit.disk.content(path)) == before
    assert directory.logs[kit.orders].durable_end_offset == 7
    kit.cut_power()
    assert bytes(kit.disk.content(path)) == before


@pytest.mark.parametrize("has_room", [True, False])
def test_writing_again_waits_for_the_disk_only(
    kit: "StorageKit", make_batch: "MakeBatch", has_room: bool
) -> None:
    """Others have their turn after each piece; a pause would make a start take hours."""

    async def begin() -> None:
        kit.config = LogConfig()
        _, log = await kit.new_log()
        for _ in range(7):
            log.append_as_leader(make_batch([b"x" * 500_000]), 1, NOW)
        await log.flush()

    async def start() -> None:
        loop = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", lambda *_: pytest.fail("it waits for time to pass"))
            assert (await kit.open()).logs[kit.orders].durable_end_offset == 7

    kit.run(begin())
    kit.kill()
    if not has_room:
        usage = kit.disk.usage()
        kit.disk.capacity_bytes = usage.total_bytes - usage.free_bytes + 1_000
    kit.run(start())


def test_without_room_for_the_epochs_a_log_counts_as_durable_up_to_its_checkpoint(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    kit.kill()
    kit.disk.fail_next("replace", errno.ENOSPC, "leader-epoch-checkpoint")

    log = kit.run(kit.open()).logs[kit.orders]

    assert (log.durable_end_offset, log.end_offset) == (4, RECORDS)


def test_a_log_that_was_cut_says_so_until_it_mark_in_sync_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Also after another start, which finds nothing wrong with it any more."""
    _, log = kit.run(write(kit, make_batch))
    flip(kit, log._state.segments.active.log_path, 70)
    kit.kill()
    first = kit.run(kit.open())
    assert first.report.partitions[0].verdict is Verdict.TAIL_CUT
    assert first.high_watermark_before_truncation(kit.orders) == 4

    kit.kill()
    second = kit.run(kit.open())
    assert second.report.partitions[0].verdict is Verdict.INTACT
    assert second.high_watermark_before_truncation(kit.orders) == 4

    kit.run(second.mark_in_sync_again(kit.orders))
    kit.kill()
    assert kit.run(kit.open()).high_watermark_before_truncation(kit.orders) is None


def test_a_cut_is_remembered_before_it_is_made(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    """Whenever the power fails in a start: what is cut is known to be cut."""
    for step in range(1, 40):
        machine = kits()
        _, log = machine.run(write(machine, make_batch))
        flip(machine, log._state.segments.active.log_path, 70)
        machine.kill()
        machine.disk.cut_power_at(step)
        with suppress(power_cut):
            machine.run(machine.open())
        machine.cut_power(step)
        directory = machine.run(machine.open())
        assert directory.high_watermark_before_truncation(machine.orders) is not None, step


def test_a_log_that_ends_below_what_was_committed_says_so(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    directory, log = kit.run(write(kit, make_batch))
    kit.run(directory.checkpoint({kit.orders: RECORDS}))
    kit.disk.remove("recovery-point-offset-checkpoint")
    active = log._state.segments.active
    kit.disk.open(active.log_path).truncate(0)
    kit.kill()

    found = kit.run(kit.open())
    assert found.logs[kit.orders].end_offset < RECORDS
    assert found.high_watermark_before_truncation(kit.orders) == RECORDS
    # The checkpoint follows the log; what is known about it does not.
    kit.run(found.checkpoint({kit.orders: 1}))
    kit.kill()
    assert kit.run(kit.open()).high_watermark_before_truncation(kit.orders) == RECORDS


def test_where_it_is_not_known_which_logs_were_cut_all_may_be(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Each of them says so until it is in sync, also after another start."""
    kit.run(write(kit, make_batch))
    kit.run(kit.disk.replace("cut-tail-checkpoint", b"\0\0\0"))
    kit.kill()
    assert kit.run(kit.open()).high_watermark_before_truncation(kit.orders) is not None
    kit.kill()
    directory = kit.run(kit.open())
    assert directory.high_watermark_before_truncation(kit.orders) is not None

    kit.run(directory.mark_in_sync_again(kit.orders))
    kit.kill()
    assert kit.run(kit.open()).high_watermark_before_truncation(kit.orders) is None


def test_what_was_cut_is_not_counted_on_after_an_accepted_loss(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The replica follows a leader that never had it."""
    directory, log = kit.run(write(kit, make_batch))
    kit.run(directory._checkpoints.high_watermarks.put(kit.orders, 12))
    flip(kit, log._state.segments.active.log_path, 70)
    kit.kill()
    directory = kit.run(kit.open())
    assert directory.high_watermark_before_truncation(kit.orders) == 12

    kit.run(directory.logs[kit.orders].truncate_to(6, NOW))

    assert directory.high_watermark_before_truncation(kit.orders) == 6


def test_without_room_for_a_copy_it_starts_all_the_same(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """And the log does not vouch for what it held."""
    kit.run(write(kit, make_batch))
    kit.kill()
    usage = kit.disk.usage()
    kit.disk.capacity_bytes = usage.total_bytes - usage.free_bytes + 300

    directory = kit.run(kit.open())

    assert directory.logs[kit.orders].end_offset == RECORDS
    assert directory.high_watermark_before_truncation(kit.orders) is not None
    assert [name for name in kit.disk.names(kit.orders.directory) if name.endswith(".tmp")] == []


@pytest.mark.parametrize("seed", range(3))
def test_a_gap_at_the_recovery_point(
    kits: "Callable[[], StorageKit]",
    make_batch: "MakeBatch",
    power_cut: type[Exception],
    seed: int,
) -> None:
    """Compaction has taken away what lay around it. The new segment begins where the last batch
    below ends, and whenever the start is interrupted, nothing of it passes for damage."""
    for step in range(1, 60):
        machine = kits()
        machine.run(with_a_gap(machine, make_batch))
        machine.kill()
        machine.disk.cut_power_at(step)
        with suppress(power_cut):
            machine.run(machine.open())
        if seed:
            machine.cut_power(seed * 100 + step)
        else:
            machine.kill()
        directory = machine.run(machine.open())
        assert directory.quarantined == {}, step
        assert directory.logs[machine.orders].end_offset == RECORDS, step


async def with_a_gap(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """Records 10 to 13 are not there, of a log that was durable up to 12."""
    kit.config = LogConfig()
    directory, log = await kit.new_log()
    await log.compaction.allow_gaps(14)
    for number in range(RECORDS):
        if number == 12:
            await directory.checkpoint({kit.orders: 4})
        batch = bytearray(make_batch([b"%02d" % number]))
        set_place(memoryview(batch), number, len(batch) - 12, 1)
        if not 10 <= number < 14:
            log.append_as_follower(memoryview(batch), 1, NOW)
        await log.make_durable(log.end_offset)
    await directory.checkpoint({kit.orders: 4})
    path = "recovery-point-offset-checkpoint"
    await kit.disk.replace(path, f"0\n1\n{kit.orders.topic} 0 12\n".encode())


def test_retries_are_known_when_the_segment_below_the_split_is_gone(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Of a producer that wrote below the recovery point only."""

    async def begin() -> None:
        directory, log = await kit.new_log()
        mine = Producer(producer_id=7, epoch=0, base_sequence=0)
        log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW)
        await log.make_durable(log.end_offset)
        await directory.checkpoint({kit.orders: 1})
        for number in range(5):
            log.append_as_leader(make_batch([b"%d" % number]), 1, NOW)
            await log.make_durable(log.end_offset)

    async def delete_below() -> None:
        log = await kit.reopened()
        assert log.segment_count == 2
        await log.delete_records_before(3, NOW)
        await log.flush()
        assert log.segment_count == 1

    kit.run(begin())
    kit.kill()
    kit.run(delete_below())
    kit.kill()
    log = kit.run(kit.reopened())
    mine = Producer(producer_id=7, epoch=0, base_sequence=0)
    assert log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW).duplicate


@pytest.mark.parametrize("killed_at", range(1, 15))
def test_power_fails_in_the_start_after_one_that_was_killed(
    kits: "Callable[[], StorageKit]",
    make_batch: "MakeBatch",
    power_cut: type[Exception],
    killed_at: int,
) -> None:
    """A segment may have been split, and the name of what was written again not be durable."""
    for cut_at in range(1, 60):
        kit = kits()
        kit.run(write(kit, make_batch, segment_bytes=10_000))
        kit.kill()
        kit.disk.cut_power_at(killed_at)
        with pytest.raises(power_cut):
            kit.run(kit.open())
        kit.kill()
        kit.disk.cut_power_at(cut_at)
        was_cut = True
        with suppress(power_cut):
            kit.run(kit.open())
            was_cut = False
        for seed in range(3):
            again = kits()
            again.disk, again.config = kit.disk.after_power_cut(seed), kit.config
            log = again.run(again.open()).logs[kit.orders]
            assert log.end_offset == RECORDS, (cut_at, seed)
        if not was_cut:
            break
    else:
        pytest.fail("the start does more than was tried")
