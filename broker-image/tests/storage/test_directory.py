"""A whole data directory: whose it is, what is in it, creating, deleting, reporting."""

import errno
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.damage import Damage, DamageState
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.directory_report import Progress, Verdict
from chiplog_broker.storage.errors import (
    DirectoryOfflineError,
    DiskFullError,
    InconsistentTopicIdError,
    LogClosedError,
    StorageError,
    WrongDirectoryError,
)
from chiplog_broker.storage.names import DAMAGED_REPLICAS, RECOVERY_POINTS, TopicPartition

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
OTHER = TopicPartition("orders-archive", 3)
OTHER_ID = UUID(int=7)


def test_a_new_directory_becomes_this_brokers(kit: "StorageKit") -> None:
    first = kit.run(kit.open())
    kit.disk.release_locks()
    again = kit.run(kit.open())
    assert (first.identity.node_id, first.identity.cluster_id) == (1, "cluster")
    assert again.identity == first.identity
    assert first.report.partitions == ()


@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "cluster"), (1, "another")])
def test_another_brokers_directory_is_refused(
    kit: "StorageKit", node_id: int, cluster_id: str
) -> None:
    directory = kit.run(kit.open())
    kit.disk.release_locks()
    ports = StoragePorts(directory._disk, directory._clock, directory._rng)
    with pytest.raises(WrongDirectoryError):
        kit.run(
            LogDirectory.open(
                ports, OpenOptions(node_id=node_id, cluster_id=cluster_id), kit.events
            )
        )


def test_replicas_without_an_owner_are_refused(kit: "StorageKit") -> None:
    kit.run(kit.new_log())
    kit.disk.remove("meta.properties")
    kit.kill()
    with pytest.raises(WrongDirectoryError):
        kit.run(kit.open())


def test_only_one_process_has_it(kit: "StorageKit") -> None:
    kit.run(kit.open())
    with pytest.raises(BlockingIOError):
        kit.run(kit.open())


def test_a_created_replica_survives_a_power_cut(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    for seed in range(10):
        other = type(kit)(type(kit.disk)(), kit.clock, kit.config)
        other.run(other.new_log())
        other.cut_power(seed)
        log = other.run(other.reopened())
        assert log.topic_id == kit.topic_id
        assert log.append_as_leader(make_batch([b"x"]), 0, NOW).base_offset == 0


def test_creating_twice(kit: "StorageKit") -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        assert await directory.create(kit.orders, kit.topic_id, LogConfig()) is log
        with pytest.raises(InconsistentTopicIdError):
            await directory.create(kit.orders, OTHER_ID, LogConfig())

    kit.run(scenario())


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("make_directory", "orders-0"),
        ("open", "orders-0"),
        ("replace", "partition.metadata"),
        ("replace", "damaged-replicas"),
    ],
)
def test_a_replica_for_which_there_was_no_room(
    kit: "StorageKit", operation: str, path: str
) -> None:
    """What was begun of it does not stand in the way when there is room again."""

    async def scenario() -> None:
        directory = await kit.open()
        found = Damage(kit.topic_id, DamageState.FOUND, "orders-0", 0)
        await directory.damage.put(kit.orders, found)
        config = LogConfig(compacts=True)
        kit.disk.fail_next(operation, errno.ENOSPC, path)
        with pytest.raises(DiskFullError):
            await directory.create(kit.orders, kit.topic_id, config)
        assert not kit.disk.exists(kit.orders.directory)
        log = await directory.create(kit.orders, kit.topic_id, config)
        assert directory.logs == {kit.orders: log}
        assert directory.is_refetching(kit.orders)

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open())
    assert directory.is_refetching(kit.orders)
    assert list(directory.logs) == [kit.orders]


def test_a_replica_that_can_neither_be_made_nor_removed(kit: "StorageKit") -> None:
    """The next start finds it half made, and removes it."""

    async def scenario() -> None:
        directory = await kit.open()
        kit.disk.fail_next("replace", errno.ENOSPC, "partition.metadata")
        kit.disk.fail_next("remove", errno.EIO, "orders-0")
        with pytest.raises(DirectoryOfflineError):
            await directory.create(kit.orders, kit.topic_id, LogConfig())

    kit.run(scenario())
    kit.kill()
    assert kit.run(kit.open()).report.partitions == ()


def test_a_replica_that_a_kill_left_without_a_durable_name(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Its directory is in the page cache only. Simulated seed 8000129."""

    class Killed(BaseException):
        """The process ends here."""

    def end_before_the_sync(operation: str, path: str) -> None:
        if (operation, path) == ("sync_directory", ""):
            raise Killed

    async def begin() -> None:
        directory = await kit.open()
        kit.disk.stepping = end_before_the_sync
        with pytest.raises(Killed):
            await directory.create(kit.orders, kit.topic_id, LogConfig())

    async def go_on() -> None:
        log = await kit.reopened()
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        await log.flush()

    kit.run(begin())
    kit.kill()
    kit.run(go_on())
    kit.cut_power()
    assert kit.run(kit.reopened()).end_offset == 1


def test_a_deleted_replica_goes_in_two_steps(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        found = log.read(0, 1_000, 1)
        await directory.delete(kit.orders)
        with pytest.raises(LogClosedError):
            log.append_as_leader(make_batch([b"x"]), 0, NOW)
        (marked,) = [name for name in kit.disk.names("") if name.endswith("-delete")]
        assert marked.startswith("orders-0.")
        assert found.read(), "a read under way can finish"
        new = await directory.create(kit.orders, OTHER_ID, LogConfig())
        assert new.end_offset == 0
        kit.clock.time_ms += 60_000
        await directory.maintain({})
        assert marked not in kit.disk.names("")

    kit.run(scenario())


@pytest.mark.parametrize("checkpoint", [RECOVERY_POINTS, DAMAGED_REPLICAS])
def test_a_full_disk_gets_the_room_of_a_deleted_replica(kit: "StorageKit", checkpoint: str) -> None:
    """Its entries in other files may have to stay."""

    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.checkpoint({})
        mark = Damage(kit.topic_id, DamageState.REFETCHING)
        await directory.damage.put(kit.orders, mark)
        kit.disk.fail_next("replace", errno.ENOSPC, checkpoint)
        with suppress(DiskFullError):
            await directory.delete(kit.orders)
        kit.clock.time_ms += 60_000
        await directory.maintain({})
        assert not [name for name in kit.disk.names("") if name.endswith("-delete")]
        await directory.create(kit.orders, OTHER_ID, LogConfig())
        await directory.checkpoint({})

    kit.run(scenario())
    kit.kill()
    assert kit.run(kit.reopened()).end_offset == 0


def test_deletion_is_finished_after_a_crash(kit: "StorageKit") -> None:
    async def scenario() -> None:
        directory, _ = await kit.new_log()
        await directory.delete(kit.orders)

    kit.run(scenario())
    kit.cut_power(2)
    directory = kit.run(kit.open())
    assert kit.orders not in directory.logs
    assert not [name for name in kit.disk.names("") if name.endswith("-delete")]


def test_old_checkpoints_do_not_bind_a_new_replica(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The name is the same, the log is not: an old recovery point would quarantine it."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        for _ in range(5):
            log.append_as_leader(make_batch([b"x"]), 0, NOW)
        await log.flush()
        await directory.checkpoint({kit.orders: 5})
        await log.delete_records_before(4, NOW)
        await directory.delete(kit.orders)
        await directory.create(kit.orders, OTHER_ID, LogConfig())

    kit.run(scenario())
    kit.cut_power(1)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset, log.topic_id) == (0, 0, OTHER_ID)


def test_checkpoints_of_a_half_finished_deletion_do_not_bind_either(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The crash came after the directory was renamed and before its entries were dropped."""

    async def use() -> None:
        directory, log = await kit.new_log()
        for _ in range(5):
            log.append_as_leader(make_batch([b"x"]), 0, NOW)
        await log.flush()
        await directory.checkpoint({kit.orders: 5})

    kit.run(use())
    kit.disk.rename("orders-0", "orders-0.0123-delete")
    kit.kill()
    kit.run(kit.new_log())
    kit.cut_power(1)
    assert kit.run(kit.reopened()).end_offset == 0


@pytest.mark.parametrize("metadata", [b"", b"version: 0\ntopic_id: ?", None])
def test_records_of_an_unknown_topic_are_quarantined(
    kit: "StorageKit", make_batch: "MakeBatch", metadata: bytes | None
) -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"]), 0, NOW)
    kit.disk.remove(kit.path("partition.metadata"))
    if metadata is not None:
        kit.disk.open(kit.path("partition.metadata"), create=True).append(metadata)
    kit.kill()
    directory = kit.run(kit.open())
    assert "partition.metadata" in directory.quarantined[kit.orders]
    assert kit.disk.names("orders-0")


def test_a_replica_that_was_never_finished_is_removed(kit: "StorageKit") -> None:
    kit.run(kit.open())
    kit.disk.make_directory("orders-0")
    kit.disk.open(kit.path("00000000000000000000.log"), create=True)
    kit.kill()
    directory = kit.run(kit.open())
    assert directory.report.partitions == ()
    assert not kit.disk.exists("orders-0")


def test_a_damaged_replica_can_be_set_aside_and_created_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        await directory.quarantine(kit.orders, "a test says so")
        assert directory.quarantined == {kit.orders: "a test says so"}
        with pytest.raises(StorageError):
            await directory.create(kit.orders, kit.topic_id, LogConfig())
        name = await directory.set_aside(kit.orders)
        assert name.endswith("-stray")
        await directory.create(kit.orders, kit.topic_id, LogConfig())
        assert "00000000000000000000.log" in kit.disk.names(name)

    kit.run(scenario())
    kit.cut_power(1)
    directory = kit.run(kit.open())
    assert list(directory.logs) == [kit.orders]
    assert not directory.quarantined


def test_a_full_disk_does_not_keep_a_damaged_replica_from_being_set_aside(
    kit: "StorageKit",
) -> None:
    """A second attempt would not find its directory."""

    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.checkpoint({})
        await directory.quarantine(kit.orders, "a test says so")
        kit.disk.fail_next("replace", errno.ENOSPC, RECOVERY_POINTS)
        await directory.set_aside(kit.orders)
        await directory.create(kit.orders, kit.topic_id, LogConfig())

    kit.run(scenario())
    kit.cut_power(1)
    directory = kit.run(kit.open())
    assert list(directory.logs) == [kit.orders]
    assert not directory.quarantined


def test_one_damaged_replica_does_not_keep_the_others(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await kit.new_log()
        other = await directory.create(OTHER, OTHER_ID, LogConfig())
        for replica in (log, other):
            replica.append_as_leader(make_batch([b"x"]), 0, NOW)
            await replica.make_durable(1)
        await directory.checkpoint({kit.orders: 1, OTHER: 1})

    kit.run(scenario())
    kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
    kit.kill()
    directory = kit.run(kit.open())
    verdicts = {report.partition: report.verdict for report in directory.report.partitions}
    assert verdicts == {kit.orders: Verdict.QUARANTINED, OTHER: Verdict.INTACT}
    assert directory.logs[OTHER].end_offset == 1
    assert directory.high_watermark(OTHER) == 1
    assert directory.high_watermark(TopicPartition("none", 0)) == 0


def test_progress_is_reported(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    _, log = kit.run(kit.new_log())
    log.append_as_leader(make_batch([b"x"]), 0, NOW)
    size_bytes = log.size_bytes
    directory = kit.run(kit.open_again())
    told = kit.events.progress
    told.clear()
    kit.disk = kit.disk.after_kill()
    ports = StoragePorts(kit.disk, directory._clock, directory._rng)
    options = OpenOptions(node_id=1, cluster_id="cluster")
    kit.run(LogDirectory.open(ports, options, kit.events))
    assert told[-1] == Progress(1, 1, size_bytes)
    assert told == sorted(told, key=lambda step: (step.partitions_done, step.scanned_bytes))


def test_an_unreadable_disk_takes_the_directory_offline(kit: "StorageKit") -> None:
    kit.disk.fail_next("replace", errno.EIO)
    with pytest.raises(DirectoryOfflineError):
        kit.run(kit.open())


def test_maintenance_expires_and_removes(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        kit.config = LogConfig(segment_bytes=200, retention_ms=1_000)
        directory, log = await kit.new_log()
        for _ in range(6):
            log.append_as_leader(make_batch([b"x" * 20], timestamp_ms=NOW), 0, NOW)
        kit.clock.time_ms = NOW + 5_000
        await directory.maintain({kit.orders: 4})
        assert log.log_start_offset == 4
        kit.clock.time_ms += 60_000
        await directory.maintain({kit.orders: 4})
        assert not [name for name in kit.disk.names("orders-0") if name.endswith(".deleted")]

    kit.run(scenario())


def test_other_files_are_left_alone(kit: "StorageKit") -> None:
    kit.run(kit.open())
    kit.disk.make_directory("lost+found")
    kit.disk.make_directory("orders-0.abc-stray")
    kit.kill()
    assert kit.run(kit.open()).report.partitions == ()
    assert {"lost+found", "orders-0.abc-stray"} <= set(kit.disk.names(""))
