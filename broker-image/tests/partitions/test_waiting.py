"""Fetches that wait, and how many of them are tried at a time."""

import asyncio

from chiplog_broker.event_loop import SLICE_S
from chiplog_broker.partitions.waiting import FetchWaiters


class Clock:
    """Time passes where somebody works."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Fetch:
    """One that takes long to try."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.tries = 0

    def changed(self) -> None:
        self.tries += 1
        self.clock.now_s += self.takes_s


async def one_turn() -> None:
    await asyncio.sleep(0)


async def turns_of(clock: Clock, fetches: list[Fetch]) -> list[list[int]]:
    """How often each was tried, after each of a few turns of the event loop."""
    waiters = FetchWaiters(clock.monotonic_s)
    waiters.wake(dict.fromkeys(fetches))
    seen = []
    for _ in range(4):
        await one_turn()
        seen.append([one.tries for one in fetches])
    return seen


def test_other_requests_run_between_the_slices_of_long_fetches() -> None:
    clock = Clock()
    slow = [Fetch(clock, 2 * SLICE_S) for _ in range(3)]
    assert asyncio.run(turns_of(clock, slow)) == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]


def test_fetches_that_are_quick_are_tried_together() -> None:
    clock = Clock()
    quick = [Fetch(clock, SLICE_S / 100) for _ in range(50)]
    assert asyncio.run(turns_of(clock, quick))[0] == [1] * 50


def test_who_is_woken_in_the_meantime_is_tried_after_those_that_wait() -> None:
    async def scenario() -> None:
        clock = Clock()
        waiters = FetchWaiters(clock.monotonic_s)
        first, second, third = (Fetch(clock, 2 * SLICE_S) for _ in range(3))
        waiters.wake({first: None, second: None})
        await one_turn()
        waiters.wake({third: None, second: None})
        await one_turn()
        assert [one.tries for one in (first, second, third)] == [1, 1, 0]
        await one_turn()
        assert [one.tries for one in (first, second, third)] == [1, 1, 1]

    asyncio.run(scenario())
