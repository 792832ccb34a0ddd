"""Power fails after records were deleted: of the files that went any may be back."""

import errno
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.config import Durability, LogConfig

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_after_records_were_deleted_and_the_next_one_began_a_segment(
    kit: "StorageKit", make_batch: "MakeBatch", seed: int
) -> None:
    """Before the next sync."""

    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, durability=Durability.FSYNC)
        directory, log = await kit.new_log()
        for number in range(8):
            log.append_as_leader(make_batch([b"%d" % number]), 1, NOW)
        await log.make_durable(8)
        await directory.checkpoint({kit.orders: 8})
        await log.delete_records_before(8, NOW)
        log.append_as_leader(make_batch([b"8"]), 1, NOW)
        assert log.segment_count == 2

    kit.run(scenario())
    kit.cut_power(seed)
    directory = kit.run(kit.open())
    assert directory.quarantined == {}


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_after_records_were_deleted_while_their_segment_ended(
    kit: "StorageKit", make_batch: "MakeBatch", seed: int
) -> None:
    """One that ended since then has no snapshot to follow it: it stays."""

    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, durability=Durability.FSYNC)
        directory, log = await kit.new_log()
        for number in range(8):
            log.append_as_leader(make_batch([b"%d" % number]), 1, NOW)
        await log.make_durable(8)
        await directory.checkpoint({kit.orders: 8})
        assert log.segment_count == 4

        async def device(path: str) -> None:
            if path == "log-start-offset-checkpoint" and log.end_offset == 8:
                log.append_as_leader(make_batch([b"8"]), 1, NOW)

        kit.disk.device = device
        await log.delete_records_before(8, NOW)

    kit.run(scenario())
    kit.cut_power(seed)
    directory = kit.run(kit.open())
    assert directory.quarantined == {}


@pytest.mark.parametrize("checkpointed", [1, 8])
@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_after_records_were_deleted_where_snapshots_are_missing(
    kit: "StorageKit", make_batch: "MakeBatch", seed: int, checkpointed: int, *, is_old: bool
) -> None:
    """An older version left none after a crash, or there was no room. Record 7 is durable."""

    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, durability=Durability.FSYNC)
        directory, log = await kit.new_log()
        for number in range(8):
            log.append_as_leader(make_batch([b"%d" % number]), 1, NOW)
            if log.end_offset == 7 and not is_old:
                kit.disk.fail_next("replace", errno.ENOSPC, f"{6:020d}.snapshot")
            await log.make_durable(log.end_offset)
            if log.end_offset == checkpointed:
                await directory.checkpoint({kit.orders: checkpointed})
        if is_old:
            for name in kit.disk.names(kit.orders.directory):
                if name.endswith(".snapshot"):
                    kit.disk.remove(kit.path(name))
            await kit.disk.sync_directory(kit.orders.directory)
        else:
            kit.disk.fail_next("replace", errno.ENOSPC, f"{6:020d}.snapshot")
        await log.delete_records_before(7, NOW)

    kit.run(scenario())
    kit.cut_power(seed)
    directory = kit.run(kit.open())
    assert directory.quarantined == {}
    assert directory.logs[kit.orders].end_offset == 8
