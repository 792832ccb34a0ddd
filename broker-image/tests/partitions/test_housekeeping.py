"""What the broker does by itself, in time and whatever goes wrong."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.conftest import Kit


def test_flush_ms_is_kept_between_two_rounds_of_retention(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", chiplog_durability="PageCache", flush_ms="50")
            await client.produce("orders", kit.batch(b"a"))
            before = kit.disk.syncs
            await client.produce("orders", kit.batch(b"b"))
            assert kit.disk.syncs == before
            async with asyncio.timeout(2):
                while kit.disk.syncs == before:
                    await client.metadata()

    kit.run(scenario)


def test_a_round_that_fails_is_logged_and_followed_by_the_next(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with kit.running(log_retention_check_interval_ms="10") as client:
            rounds = 0

            async def fail(_: Any) -> None:
                nonlocal rounds
                rounds += 1
                raise RuntimeError("a fault of our own")

            monkeypatch.setattr(kit.broker._directory, "maintain", fail)
            async with asyncio.timeout(2):
                while rounds < 3:
                    await client.metadata()

    kit.run(scenario)
    assert "retention_failed" in caplog.messages


def test_an_idle_producer_is_forgotten_when_the_configuration_says_so(kit: "Kit") -> None:
    options = BatchOptions(producer=Producer(producer_id=5, epoch=0, base_sequence=0))
    sent = bytes(build_batch([NewRecord(b"value")], options))

    async def scenario() -> None:
        async with kit.running(
            log_retention_check_interval_ms="10", producer_id_expiration_ms="1"
        ) as client:
            await client.create("orders")
            (first,) = await client.produce("orders", sent)
            logs = kit.broker._directory.logs
            log = next(log for name, log in logs.items() if name.topic == "orders")
            async with asyncio.timeout(5):
                while log.producer_count:
                    await client.metadata()
            (second,) = await client.produce("orders", sent)
            assert second.base_offset == first.base_offset + 1

    kit.run(scenario)


def test_a_topic_is_compacted_from_when_it_says_so(kit: "Kit") -> None:
    """Nothing looks for compacted topics before there is one, and then it is found."""

    def keyed(number: int) -> bytes:
        return bytes(build_batch([NewRecord(b"value", b"key", 10 * number)]))

    async def scenario() -> None:
        async with kit.running(log_cleaner_backoff_ms="10") as client:
            await client.create("orders", min_cleanable_dirty_ratio="0", segment_ms="1")
            for n in range(5):
                await client.produce("orders", keyed(n))
            stats = kit.broker._directory.cleaner_stats
            assert stats.passes == 0
            change = ("cleanup.policy", 0, "compact")
            assert (await client.alter("orders", change))[0] is ErrorCode.none
            async with asyncio.timeout(5):
                while not stats.passes:
                    await client.metadata()
            assert stats.removed_records > 0
            (answer,) = await client.produce("orders", kit.batch(b"no key"))
            assert ErrorCode(answer.error_code) is ErrorCode.invalid_record

    kit.run(scenario)


def test_a_broker_that_stops_gives_a_compaction_up(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(
            log_cleaner_backoff_ms="10", log_cleaner_io_max_bytes_per_second="1"
        ) as client:
            await client.create("orders", cleanup_policy="compact", segment_ms="1")
            for n in range(50):
                batch = build_batch([NewRecord(b"v" * 1000, b"%d" % n, n)])
                await client.produce("orders", bytes(batch))
            directory = kit.directory / "data" / "orders-0"
            async with asyncio.timeout(20):
                while kit.broker._directory.cleaner_stats.max_dirty_ratio < 1:
                    await client.metadata()
        assert kit.broker._directory.cleaner_stats.passes == 0
        assert not [one for one in directory.iterdir() if one.suffix in {".cleaned", ".swap"}]

    kit.run(scenario)
