"""What a start makes of bytes that may be in the page cache only, and of a log that it cut."""

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

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
RECORDS = 20


async def write(
    kit: "StorageKit", make_batch: "MakeBatch", *, checkpointed: int = 4
) -> tuple[LogDirectory, PartitionLog]:
    """As many records as batches, all durable, of which a checkpoint covers some."""
    kit.config = LogConfig(segment_bytes=500)
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
    active = log._segments.active
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


def test_a_power_cut_at_every_step_of_writing_again(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    """The next start finds old bytes, new ones or both, and loses nothing that was durable."""
    for step in range(1, 80):
        machine = kits()
        machine.run(write(machine, make_batch))
        machine.kill()
        machine.disk.cut_power_at(step)
        with suppress(power_cut):
            machine.run(machine.open())
        machine.cut_power(step)
        log = machine.run(machine.reopened())
        assert log.end_offset == RECORDS, step
        assert machine.run(machine.open_again()).committed_before_cut(machine.orders) is None


def test_a_log_that_was_cut_says_so_until_it_is_in_sync_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Also after another start, which finds nothing wrong with it any more."""
    _, log = kit.run(write(kit, make_batch))
    flip(kit, log._segments.active.log_path, 70)
    kit.kill()
    first = kit.run(kit.open())
    assert first.report.partitions[0].verdict is Verdict.TAIL_CUT
    assert first.committed_before_cut(kit.orders) == 4

    kit.kill()
    second = kit.run(kit.open())
    assert second.report.partitions[0].verdict is Verdict.INTACT
    assert second.committed_before_cut(kit.orders) == 4

    kit.run(second.is_in_sync_again(kit.orders))
    kit.kill()
    assert kit.run(kit.open()).committed_before_cut(kit.orders) is None


def test_a_cut_is_remembered_before_it_is_made(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    """Whenever the power fails in a start: what is cut is known to be cut."""
    for step in range(1, 40):
        machine = kits()
        _, log = machine.run(write(machine, make_batch))
        flip(machine, log._segments.active.log_path, 70)
        machine.kill()
        machine.disk.cut_power_at(step)
        with suppress(power_cut):
            machine.run(machine.open())
        machine.cut_power(step)
        directory = machine.run(machine.open())
        assert directory.committed_before_cut(machine.orders) is not None, step


def test_a_log_that_ends_below_what_was_committed_says_so(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    directory, log = kit.run(write(kit, make_batch))
    kit.run(directory.checkpoint({kit.orders: RECORDS}))
    kit.disk.remove("recovery-point-offset-checkpoint")
    active = log._segments.active
    kit.disk.open(active.log_path).truncate(0)
    kit.kill()

    found = kit.run(kit.open())
    assert found.logs[kit.orders].end_offset < RECORDS
    assert found.committed_before_cut(kit.orders) == RECORDS
    # The checkpoint follows the log; what is known about it does not.
    kit.run(found.checkpoint({kit.orders: 1}))
    kit.kill()
    assert kit.run(kit.open()).committed_before_cut(kit.orders) == RECORDS


def test_where_it_is_not_known_which_logs_were_cut_all_may_be(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    kit.run(kit.disk.replace("cut-tail-checkpoint", b"\0\0\0"))
    kit.kill()

    assert kit.run(kit.open()).committed_before_cut(kit.orders) == 0
