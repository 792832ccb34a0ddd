"""Long work of many requests: others wait for one turn, and for no more."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from chiplog_broker.event_loop import SLICE_S
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.ports.clock import Clock
from chiplog_wire.steps import Steps, run_steps


class WorkClock:
    """Time passes where somebody works."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def long_work() -> tuple[WorkClock, LongWork]:
    clock = WorkClock()
    return clock, LongWork(cast("Clock", clock))


def test_one_of_many_continues_in_each_slice() -> None:
    async def scenario() -> None:
        clock, work = long_work()
        done: list[int] = []

        def steps(number: int) -> Steps[int]:
            for _ in range(3):
                clock.now_s += SLICE_S
                done.append(number)
                yield None
            return number

        tasks = [asyncio.create_task(work.run(steps(one), work.slices())) for one in range(4)]
        most, before = 0, 0
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            most, before = max(most, len(done) - before), len(done)
            if len(done) <= 4:
                most = 0  # the first steps were taken before anybody waited
        assert [await task for task in tasks] == [0, 1, 2, 3]
        assert most == 1
        assert done == [0, 1, 2, 3] * 3

    asyncio.run(scenario())


def test_who_comes_while_others_wait_begins_behind_them() -> None:
    async def scenario() -> None:
        clock, work = long_work()
        first = work.slices()
        clock.now_s += SLICE_S
        waiting = asyncio.create_task(first.pause())
        await asyncio.sleep(0)
        newcomer = asyncio.create_task(work.slices().pause())
        await asyncio.sleep(0)
        assert not newcomer.done()
        await asyncio.gather(waiting, newcomer)

    asyncio.run(scenario())


def test_who_was_cancelled_holds_nobody_up() -> None:
    async def scenario() -> None:
        _, work = long_work()
        one, other = (asyncio.create_task(work.next_slice()) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.wait_for(other, 10)

    asyncio.run(scenario())


def calls(call: Callable[[], Any]) -> Steps[str]:
    try:
        found = yield call
    except ZeroDivisionError:
        return "failed"
    return f"found {found}"


@pytest.mark.parametrize(("call", "expected"), [(lambda: 7, "found 7"), (lambda: 1 // 0, "failed")])
def test_what_another_thread_does_comes_back_to_the_steps(
    call: Callable[[], Any], expected: str
) -> None:
    async def scenario() -> str:
        _, work = long_work()
        return await work.run(calls(call), work.slices())

    assert asyncio.run(scenario()) == expected
    assert run_steps(calls(call)) == expected
