"""What the broker does by itself, in time and whatever goes wrong."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

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
