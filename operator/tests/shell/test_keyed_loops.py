"""Loops by key: begun once, found, stopped; and what wakes them."""

import asyncio
from typing import Any

import pytest

from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.waking import Wake


class Counted:
    """A loop that runs until the test ends it, or lets it fail."""

    def __init__(self, key: str, log: list[str]) -> None:
        self.key, self.log = key, log
        self.ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        self.log.append(f"{self.key} begun")
        try:
            await self.ending
        except asyncio.CancelledError:
            self.log.append(f"{self.key} stopped")
            raise


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_loop_is_begun_once_and_again_when_it_has_ended(bench: Any) -> None:
    async def scenario() -> None:
        log: list[str] = []
        loops = KeyedLoops[str, Counted]("loop")
        assert loops.of("a") is None, "nobody said how to make one"
        async with loops.running(lambda key: Counted(key, log)):
            first = loops.of("a")
            await turn()
            assert first is not None
            assert loops.of("a") is first
            first.ending.set_result(None)
            await turn()
            assert loops.all() == []
            assert loops.of("a") is not first
            await turn()
            assert log == ["a begun", "a begun"]
            loops.keep([])
        assert log[-1] == "a stopped"
        assert loops.of("a") is None

    bench.run(scenario())


def test_those_that_are_kept_go_on_and_a_new_one_begins(bench: Any) -> None:
    async def scenario() -> None:
        log: list[str] = []
        loops = KeyedLoops[str, Counted]("loop")
        async with loops.running(lambda key: Counted(key, log)):
            loops.keep(["a", "b"])
            await turn()
            loops.keep(["b", "c"])
            await turn()
            assert [one.key for one in loops.all()] == ["b", "c"]
            assert log == ["a begun", "b begun", "a stopped", "c begun"]
            loops.keep([])

    bench.run(scenario())


def test_a_loop_that_fails_ends_all_of_them(bench: Any) -> None:
    log: list[str] = []

    async def scenario() -> None:
        loops = KeyedLoops[str, Counted]("loop")
        async with loops.running(lambda key: Counted(key, log)):
            loops.keep(["a", "b"])
            await turn()
            (first, _) = loops.all()
            first.ending.set_exception(OSError("a fault"))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup):
        bench.run(scenario())
    assert log[-1] == "b stopped"


def test_a_wait_ends_in_time_or_when_it_is_woken(bench: Any) -> None:
    async def scenario() -> None:
        wake = Wake(bench.clock)
        waiting = asyncio.ensure_future(wake.within(5.0))
        await bench.clock.advance(5.1)
        assert await waiting is False
        waiting = asyncio.ensure_future(wake.within(5.0))
        await turn()
        wake.set(urgent=True)
        assert await waiting is True
        wake.set()
        assert (wake.is_set, wake.is_urgent) == (True, True), "until the next round"
        wake.clear()
        assert (wake.is_set, wake.is_urgent) == (False, False)

    bench.run(scenario())
