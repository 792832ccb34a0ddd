"""What a full disk refused is tried again once there is room, and harms nothing until then."""

import errno
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import DamagedLogError, DiskFullError
from chiplog_broker.storage.names import (
    DAMAGED_REPLICAS,
    HIGH_WATERMARKS_BEFORE_TRUNCATION,
    LOG_START_OFFSETS,
    TopicPartition,
)
from chiplog_wire.records.writer import Producer
from tests.storage.conftest import batch_of

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

NOW = 1_000_000


def test_a_lost_end_that_could_not_be_forgotten_is_forgotten_by_the_next_attempt(
    kit: "StorageKit",
) -> None:
    """`Replicas._check_truncated` asks first whether there is a mark: so it has to stay."""

    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        marks = directory._checkpoints.high_watermarks_before_truncation
        await marks.put(kit.orders, 1)  # as a start that cut the log does
        kit.disk.fail_next("replace", errno.ENOSPC, HIGH_WATERMARKS_BEFORE_TRUNCATION)
        with pytest.raises(DiskFullError):
            await directory.mark_in_sync_again(kit.orders)
        # The next attempt, with room again, as `_check_truncated` does it:
        if directory.high_watermark_before_truncation(kit.orders) is not None:
            await directory.mark_in_sync_again(kit.orders)
        await directory.close({kit.orders: 1}, 1)

    kit.run(scenario())
    directory = kit.run(kit.open_again())
    assert directory.high_watermark_before_truncation(kit.orders) is None


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_damage_that_a_full_disk_kept_from_being_stored_is_stored_when_there_is_room(
    kit: "StorageKit", how: str
) -> None:
    """The disk is full for a moment only. Nobody else leads, so the replica stays in quarantine."""

    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, retention_ms=-1)
        directory, log = await kit.new_log()
        for _ in range(6):
            log.append_as_leader(batch_of([b"x" * 100]), 0, NOW)
        await log.flush()
        await directory.checkpoint({kit.orders: 6})
        kit.disk.fail_next("replace", errno.ENOSPC, DAMAGED_REPLICAS)
        kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
        with suppress(DiskFullError):  # `Replicas._quarantine` logs it
            await directory.quarantine_damaged(kit.orders, DamagedLogError("found by the scrub"))
        # There is room again, and all housekeeping is done many times.
        for _ in range(3):
            kit.clock.time_ms += 60_000
            await directory.maintain({})
            await directory.checkpoint({})
        if how == "clean":
            await directory.close({}, 1)

    kit.run(scenario())
    if how == "clean":
        kit.disk.release_locks()
    else:
        kit.kill()
    directory = kit.run(kit.open())
    assert kit.orders in directory.quarantined, directory.report.partitions


def test_a_full_disk_gets_the_room_of_a_deleted_replica_although_retention_cannot_delete(
    kit: "StorageKit",
) -> None:
    """Retention stores a log start first, for which there is no room before the files are gone."""

    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, retention_ms=1000)
        directory, log = await kit.new_log()
        for _ in range(6):
            log.append_as_leader(batch_of([b"x" * 100], timestamp_ms=NOW), 0, NOW)
        await log.flush()
        other = TopicPartition("deleted", 0)
        await directory.create(other, UUID(int=9), LogConfig())
        await directory.checkpoint({})
        await directory.delete(other)
        kit.clock.time_ms += 3_600_000
        high_watermarks = {kit.orders: log.end_offset}
        for _ in range(5):
            is_left = any(name.endswith("-delete") for name in kit.disk.names(""))
            if is_left:  # the disk is full as long as nothing is removed
                kit.disk.fail_next("replace", errno.ENOSPC, LOG_START_OFFSETS)
            with suppress(DiskFullError):  # housekeeping logs it
                await directory.maintain(high_watermarks)
            kit.clock.time_ms += 60_000
        assert not [name for name in kit.disk.names("") if name.endswith("-delete")]
        assert log.log_start_offset > 0, "retention goes on"

    kit.run(scenario())


@pytest.mark.parametrize("then", ["truncate", "kill"])
def test_the_producers_of_deleted_segments_stay_known_although_their_snapshot_found_no_room(
    kit: "StorageKit", then: str
) -> None:
    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=300, retention_ms=-1)
        _, log = await kit.new_log()
        producer = Producer(producer_id=7, epoch=0, base_sequence=0)
        log.append_as_leader(batch_of([b"x" * 100], producer=producer), 0, NOW)
        log.append_as_leader(batch_of([b"x" * 100]), 0, NOW)  # a new segment, and its snapshot
        log.append_as_leader(batch_of([b"x"]), 0, NOW)
        kit.disk.fail_next("replace", errno.ENOSPC, ".snapshot")
        with suppress(DiskFullError):
            await log.delete_records_before(1, NOW)
        if then == "truncate":
            await log.truncate_to(2, NOW)
            assert log._state.producers.get(7) is not None, "its retry is stored twice"

    kit.run(scenario())
    if then == "kill":
        kit.kill()
        log = kit.run(kit.reopened())
        assert log._state.producers.get(7) is not None, "its retry is stored twice"
