"""A damaged replica is remembered until it is whole again, wherever the power fails."""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.damage import Damage, DamageState
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.directory_report import Verdict
from chiplog_broker.storage.errors import DamagedLogError, DiskFullError, WrongDirectoryError
from chiplog_broker.storage.names import DAMAGED_REPLICAS

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
OTHER_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-ba9876543210")


def damage(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """A durable record is not what was written."""

    async def write() -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 0, NOW)
        await log.make_durable(1)
        await directory.checkpoint({kit.orders: 1})

    kit.run(write())
    kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
    kit.kill()


def state(directory: LogDirectory, kit: "StorageKit") -> DamageState | None:
    mark = directory.damage.get(kit.orders)
    return None if mark is None else mark.state


async def begin_anew(kit: "StorageKit", directory: LogDirectory) -> None:
    await directory.set_aside(kit.orders)
    await directory.create(kit.orders, kit.topic_id, LogConfig())


def test_what_was_found_is_remembered(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    damage(kit, make_batch)
    directory = kit.run(kit.open())
    found = Damage(kit.topic_id, DamageState.FOUND, kit.path("00000000000000000000.log"), 0)
    assert directory.damage.get(kit.orders) == found
    # Also where nothing is left to be seen of it.
    kit.disk.flip_bit(kit.path("00000000000000000000.log"), 65, 0)
    kit.cut_power()
    directory = kit.run(kit.open())
    assert [one.verdict for one in directory.report.partitions] == [Verdict.QUARANTINED]
    assert "found damaged before" in directory.quarantined[kit.orders]
    assert directory.damage.get(kit.orders) == found


def test_a_copy_counts_as_damaged_until_it_is_whole(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    damage(kit, make_batch)

    async def fetch_anew() -> None:
        directory = await kit.open()
        assert not directory.is_refetching(kit.orders)
        await begin_anew(kit, directory)
        assert directory.is_refetching(kit.orders)
        assert any(name.endswith("-stray") for name in kit.disk.names(""))
        directory.logs[kit.orders].append_as_leader(make_batch([b"x"]), 0, NOW)
        await directory.close({}, 1)

    async def say_whole() -> None:
        directory = await kit.open()
        assert directory.report.clean
        assert directory.is_refetching(kit.orders)
        await directory.mark_undamaged(kit.orders)

    kit.run(fetch_anew())
    kit.kill()
    kit.run(say_whole())
    kit.cut_power()
    directory = kit.run(kit.open())
    assert not directory.is_refetching(kit.orders)
    assert list(directory.damage) == []


def test_the_mark_outlives_a_power_cut_anywhere_between(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    """Never an empty log that looks as if it had always been one."""
    seen, seed, is_cut = set(), 0, True
    while is_cut:
        seed += 1
        kit = kits()
        damage(kit, make_batch)
        directory = kit.run(kit.open())
        kit.disk.cut_power_at(kit.disk.operations + 1 + seed // 3)
        try:
            kit.run(begin_anew(kit, directory))
        except power_cut:
            is_cut = True
        else:
            is_cut = False
        kit.cut_power(seed)
        directory = kit.run(kit.open())
        seen.add((state(directory, kit), kit.orders in directory.logs))
    assert seen == {
        (DamageState.FOUND, False),
        (DamageState.REFETCHING, True),
    }


def test_another_topic_of_the_name_is_not_damaged(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    damage(kit, make_batch)

    async def scenario() -> None:
        directory = await kit.open()
        await directory.forget_damage("orders", OTHER_ID)
        assert kit.orders in directory.quarantined
        await directory.forget_damage("orders", kit.topic_id)
        assert not directory.quarantined
        await directory.create(kit.orders, OTHER_ID, LogConfig())
        assert list(directory.damage) == []

    kit.run(scenario())


def test_a_mark_that_was_left_over_is_not_the_next_topics(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    damage(kit, make_batch)

    async def scenario() -> None:
        directory = await kit.open()
        await directory.set_aside(kit.orders)
        await directory.create(kit.orders, OTHER_ID, LogConfig())
        assert list(directory.damage) == []

    kit.run(scenario())


def test_a_deleted_copy_leaves_no_mark(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    damage(kit, make_batch)

    async def scenario() -> None:
        directory = await kit.open()
        await begin_anew(kit, directory)
        await directory.delete(kit.orders)
        assert list(directory.damage) == []

    kit.run(scenario())


def test_who_does_not_say_whose_it_is_stays(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    damage(kit, make_batch)
    kit.disk.remove(kit.path("partition.metadata"))

    async def scenario() -> None:
        directory = await kit.open()
        assert directory.damage.get(kit.orders) == Damage(None, DamageState.FOUND)
        await directory.forget_damage("orders", kit.topic_id)
        assert kit.orders in directory.quarantined
        await begin_anew(kit, directory)
        assert state(directory, kit) is DamageState.REFETCHING

    kit.run(scenario())


@pytest.mark.parametrize("text", [b"0\n1\n", b"0\n1\norders 0 - lost - -\n", b"\xff"])
def test_marks_that_make_no_sense_stop_the_start(kit: "StorageKit", text: bytes) -> None:
    kit.run(kit.open())
    kit.run(kit.disk.replace("damaged-replicas", text))
    kit.kill()
    with pytest.raises(WrongDirectoryError, match="which replicas here"):
        kit.run(kit.open())


def test_a_mark_that_could_not_be_removed_damages_no_later_replica(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The topic of a damaged replica is deleted on a full disk; its name is used again."""

    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.quarantine_damaged(kit.orders, DamagedLogError("a test says so"))
        await directory.set_aside(kit.orders)
        kit.disk.fail_next("replace", errno.ENOSPC, DAMAGED_REPLICAS)
        with pytest.raises(DiskFullError):
            await directory.forget_damage(kit.orders.topic, kit.topic_id)
        await directory.forget_damage(kit.orders.topic, kit.topic_id)  # tried again
        log = await directory.create(kit.orders, OTHER_ID, kit.config)
        log.append_as_leader(make_batch([b"acknowledged"]), 0, NOW)
        await log.flush()
        await directory.close({kit.orders: 1}, 1)

    kit.run(scenario())
    directory = kit.run(kit.open_again())
    assert not directory.quarantined


def test_a_mark_that_create_could_not_remove_damages_no_later_replica(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The same, and the mark is to go when the next topic's replica is created."""

    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.quarantine_damaged(kit.orders, DamagedLogError("a test says so"))
        await directory.set_aside(kit.orders)
        kit.disk.fail_next("replace", errno.ENOSPC, DAMAGED_REPLICAS)
        with pytest.raises(DiskFullError):
            await directory.create(kit.orders, OTHER_ID, kit.config)
        log = await directory.create(kit.orders, OTHER_ID, kit.config)
        log.append_as_leader(make_batch([b"acknowledged"]), 0, NOW)
        await log.flush()

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open_again())
    assert not directory.quarantined


def test_damage_that_could_not_be_forgotten_does_not_block_the_name(kit: "StorageKit") -> None:
    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.quarantine_damaged(kit.orders, DamagedLogError("a test says so"))
        kit.disk.fail_next("replace", errno.ENOSPC, DAMAGED_REPLICAS)
        with pytest.raises(DiskFullError):
            await directory.forget_damage(kit.orders.topic, kit.topic_id)
        await directory.forget_damage(kit.orders.topic, kit.topic_id)  # tried again
        assert not directory.quarantined
        await directory.create(kit.orders, OTHER_ID, kit.config)

    kit.run(scenario())


def test_a_deleted_replica_that_was_refetched_leaves_no_mark_for_the_next(
    kit: "StorageKit",
) -> None:
    async def scenario() -> None:
        directory, _ = await kit.durable_log()
        await directory.quarantine_damaged(kit.orders, DamagedLogError("a test says so"))
        await directory.set_aside(kit.orders)
        await directory.create(kit.orders, kit.topic_id, kit.config)
        kit.disk.fail_next("replace", errno.ENOSPC, DAMAGED_REPLICAS)
        with pytest.raises(DiskFullError):
            await directory.delete(kit.orders)
        await directory.forget_damage(kit.orders.topic, kit.topic_id)  # as `Replicas.delete` does
        await directory.create(kit.orders, OTHER_ID, kit.config)

    kit.run(scenario())
    kit.kill()
    directory = kit.run(kit.open_again())
    assert not directory.is_refetching(kit.orders), "it would not lead"
