"""Who is in charge: one process at a time, and soon another one when it dies."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from chiplog_core.naming.names import OPERATOR_LEASE
from chiplog_core.operator_lease.lease import Claim, LeaseTimes, lease_held_by
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Unavailable
from chiplog_kube.manifests import version_of
from chiplog_operator import lease
from chiplog_operator.leadership import Leadership, LeaseLost

CLAIM = Claim(watches="a,b", account="chiplog-operator")


def test_a_lease_is_read_as_it_was_written(bench: Any) -> None:
    taken = lease_held_by("me", None, bench.clock.now(), LeaseTimes(), CLAIM)

    assert lease.read(lease.write(taken, "ns", "n")) == taken


def candidate(bench: Any, name: str) -> Leadership:
    return Leadership(bench.api, bench.clock, "chiplog-system", name)


async def ended(task: "asyncio.Task[None]") -> BaseException | None:
    task.cancel()
    await asyncio.wait({task})
    return None if task.cancelled() else task.exception()


def test_the_first_one_leads_and_the_second_waits(bench: Any) -> None:
    async def scenario() -> None:
        first, second = candidate(bench, "first"), candidate(bench, "second")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        await bench.clock.advance(120)
        assert first.is_held()
        assert not second.is_held()
        assert not waiting.done()
        await ended(keeping)
        await ended(waiting)

    bench.run(scenario())


def takeover(bench: Any, end: Callable[[Leadership], Any], limit_s: float) -> None:
    async def scenario() -> None:
        first, second = candidate(bench, "first"), candidate(bench, "second")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        await bench.clock.advance(7)
        await ended(keeping)
        await end(first)
        await bench.clock.advance(limit_s)
        assert waiting.done()
        assert second.is_held()
        assert not first.is_held()
        spec = bench.one(kinds.LEASES, OPERATOR_LEASE)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)

    bench.run(scenario())


def test_a_killed_leader_is_followed_in_less_than_fifteen_seconds(bench: Any) -> None:
    async def nothing(_: Leadership) -> None: ...

    takeover(bench, nothing, 12.0)


def test_a_leader_that_ends_hands_over_at_once(bench: Any) -> None:
    takeover(bench, Leadership.release, 1.5)


def test_a_renewal_that_is_cancelled_after_it_was_written_does_not_delay_the_next(
    bench: Any,
) -> None:
    """The answer with the new version of the Lease never arrives."""

    async def scenario() -> None:
        first, second = candidate(bench, "first"), candidate(bench, "second")
        await first.acquire()
        first.api = Unanswered(bench)
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        version = version_of(bench.one(kinds.LEASES, OPERATOR_LEASE))
        while version_of(bench.one(kinds.LEASES, OPERATOR_LEASE)) == version:
            await bench.clock.advance(0.1)
        await ended(keeping)
        first.api = bench.api
        await first.release()
        await bench.clock.advance(1.5)
        assert waiting.done()
        assert second.is_held()

    bench.run(scenario())


def test_a_lease_that_another_has_taken_is_not_released(bench: Any) -> None:
    async def scenario() -> None:
        first, second = candidate(bench, "first"), candidate(bench, "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await bench.clock.advance(15)
        assert waiting.done()
        before = bench.one(kinds.LEASES, OPERATOR_LEASE)
        await first.release()
        assert bench.one(kinds.LEASES, OPERATOR_LEASE) == before

    bench.run(scenario())


class Unanswered:
    """An API server that carries out writes, and whose answers are lost."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bench.api, name)

    async def replace(self, *given: Any, **more: Any) -> Any:
        await self._bench.api.replace(*given, **more)
        await asyncio.Event().wait()


def test_one_that_cannot_renew_stops_before_the_other_begins(bench: Any) -> None:
    async def scenario() -> None:
        first, second = candidate(bench, "first"), candidate(bench, "second")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        await bench.clock.advance(5)
        first.api = Broken()
        while not second.is_held():
            await bench.clock.advance(0.1)
            assert not (first.is_held() and second.is_held())
        assert isinstance(await ended(keeping), LeaseLost)
        await ended(waiting)

    bench.run(scenario())


class Broken:
    """An API server that cannot be reached."""

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> None:
            raise Unavailable("no route")

        return fail


class Slow:
    """An API server that carries out a write after a while, if it is to."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self.takes_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bench.api, name)

    async def replace(self, *given: Any, **more: Any) -> Any:
        await self._bench.clock.sleep(self.takes_s)
        return await self._bench.api.replace(*given, **more)


def test_one_renewal_that_takes_long_does_not_cost_the_lease(bench: Any) -> None:
    """It counts from when it was sent, so not much of it is left when it has arrived."""

    async def scenario() -> None:
        first, slow = candidate(bench, "first"), Slow(bench)
        await first.acquire()
        first.api = slow
        keeping = asyncio.create_task(first.keep())
        slow.takes_s = 4.5
        await bench.clock.advance(3)
        slow.takes_s = 0.0
        await bench.clock.advance(3.6)
        for _ in range(60):
            await bench.clock.advance(0.1)
            assert first.is_held()
        await ended(keeping)

    bench.run(scenario())


def test_one_that_was_paused_too_long_ends_without_another_word(bench: Any) -> None:
    async def scenario() -> None:
        first = candidate(bench, "first")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        await bench.clock.advance(1)
        bench.clock.jump(60)
        assert not first.is_held()
        bench.api.calls.clear()
        await bench.clock.advance(3)
        assert isinstance(await ended(keeping), LeaseLost)
        assert bench.api.calls == []

    bench.run(scenario())


def test_one_whose_lease_was_taken_ends(bench: Any) -> None:
    async def scenario() -> None:
        first = candidate(bench, "first")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        taken = {"spec": {"holderIdentity": "somebody"}}
        namespace = "chiplog-system"
        await bench.api.patch(kinds.LEASES, namespace, OPERATOR_LEASE, taken, field_manager="x")
        await bench.clock.advance(3)
        assert isinstance(await ended(keeping), LeaseLost)

    bench.run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_two_never_lead_at_once(bench: Any, seed: int) -> None:
    """Three candidates, an API server that fails half of the time for a while, and kills."""
    randomness = random.Random(seed)  # noqa: S311

    def fault(_: Any) -> ApiError | None:
        is_bad_time = int(bench.clock.monotonic_s()) % 20 < 12
        return Unavailable("no") if is_bad_time and randomness.random() < 0.6 else None

    async def life(one: Leadership) -> None:
        await one.acquire()
        await one.keep()

    async def scenario() -> None:
        bench.api.fault = bench.api.fault_after = fault
        lives: list[tuple[Leadership, asyncio.Task[None]]] = []
        held = 0
        for step in range(600):
            while len(lives) < 3:
                one = candidate(bench, f"{seed}-{step}-{len(lives)}")
                lives.append((one, asyncio.create_task(life(one))))
            await bench.clock.advance(0.25)
            leading = [one for one, _ in lives if one.is_held()]
            assert len(leading) <= 1
            held += len(leading)
            if randomness.random() < 0.01:
                await ended(lives.pop(randomness.randrange(3))[1])
            for index in [i for i, (_, task) in enumerate(lives) if task.done()]:
                await ended(lives.pop(index)[1])
                break
        assert held > 100
        for _, task in lives:
            await ended(task)

    bench.run(scenario())
