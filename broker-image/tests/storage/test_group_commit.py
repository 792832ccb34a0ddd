"""Group commit: who waits for what, and who is told of what failed."""

import asyncio

import pytest

from chiplog_broker.storage.errors import DiskFullError
from chiplog_broker.storage.group_commit import GroupCommit


class Device:
    """Commits whatever there is, one at a time, when told to."""

    def __init__(self) -> None:
        self.written = 0
        self.commits: list[int] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self.group = GroupCommit(self.commit)

    async def commit(self) -> int:
        mark = self.written
        await self.gate.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.commits.append(mark)
        return mark

    def start(self, mark: int) -> "asyncio.Task[None]":
        self.written = max(self.written, mark)
        return asyncio.create_task(self.group.reach(mark))


def test_a_caller_during_a_sync_shares_the_next_one() -> None:
    async def scenario() -> None:
        device = Device()
        first = device.start(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        later = [device.start(mark) for mark in range(2, 50)]
        await asyncio.sleep(0)
        device.gate.set()
        await asyncio.gather(first, *later)
        assert device.commits == [1, 49]
        await device.group.reach(30)
        assert device.commits == [1, 49]

    asyncio.run(scenario())


def test_a_failed_commit_is_final_for_all() -> None:
    async def scenario() -> None:
        device = Device()
        waiters = [device.start(1), device.start(2)]
        await asyncio.sleep(0)
        waiters.append(device.start(3))
        device.error = OSError("gone")
        device.gate.set()
        for waiter in waiters:
            with pytest.raises(OSError, match="gone"):
                await waiter
        with pytest.raises(OSError, match="gone"):
            await device.group.reach(1)
        assert device.commits == []

    asyncio.run(scenario())


def test_want_of_space_is_not_final() -> None:
    async def scenario() -> None:
        device = Device()
        waiter = device.start(1)
        device.error = DiskFullError("full")
        device.gate.set()
        with pytest.raises(DiskFullError):
            await waiter
        await device.group.reach(1)
        assert device.commits == [1]

    asyncio.run(scenario())


def test_a_cancelled_waiter_takes_nobody_along() -> None:
    async def scenario() -> None:
        device = Device()
        first, second = device.start(1), device.start(2)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        device.gate.set()
        await second
        assert device.commits == [2]

    asyncio.run(scenario())


def test_what_was_taken_back_is_never_confirmed() -> None:
    async def scenario() -> None:
        device = Device()
        below, above = device.start(5), device.start(9)
        await asyncio.sleep(0)
        device.group.withdraw(7, RuntimeError("cut"))
        device.gate.set()
        await below
        with pytest.raises(RuntimeError, match="cut"):
            await above

    asyncio.run(scenario())


def test_once_more_waits_for_a_commit_that_begins_after_it() -> None:
    async def scenario() -> None:
        device = Device()
        first = device.start(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        again = asyncio.create_task(device.group.once_more())
        await asyncio.sleep(0)
        device.gate.set()
        await asyncio.gather(first, again)
        assert device.commits == [1, 1]

    asyncio.run(scenario())
