"""What a request takes is counted, and nothing that it waits for."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.sasl import SaslSession
from chiplog_broker.server import throttling as throttling_module
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_broker.server.throttling import Throttling, Usage
from chiplog_core.client_quotas.entities import DEFAULT, Entity, Quota
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.messages import MetadataResponse, ProduceResponse
from chiplog_wire.protocol.requests import RequestHeader

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)
RATES = {Quota.PRODUCER_BYTE_RATE: 1_000.0, Quota.REQUEST_PERCENTAGE: 1.0}
BUSY_S, WAITED_S = 0.02, 5.0


def header(key: ApiKey = ApiKey.METADATA, client_id: str | None = None) -> RequestHeader:
    return RequestHeader(APIS[key], APIS[key].max_version, 1, client_id)


def peer(principal: str = "User:alice") -> Peer:
    return Peer("127.0.0.1", 50_000, LISTENER, principal=principal)


def throttling(*entities: Entity) -> Throttling:
    made = Throttling(SystemClock(), RequestMetrics())
    made.use(QuotaTable(dict.fromkeys(entities or (Entity("alice"),), RATES)))
    return made


def begun(one: Peer, key: ApiKey = ApiKey.METADATA, size_bytes: int = 0) -> Usage:
    usage = throttling().begin(header(key), one, time.perf_counter(), size_bytes)
    assert usage is not None
    return usage


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_only_limited_clients_are_counted() -> None:
    async def scenario() -> None:
        limiting = throttling()
        internal, logging_in = peer(), peer()
        internal.is_internal = True
        logging_in.sasl = SaslSession.__new__(SaslSession)  # a login that is not complete
        for one in (peer("User:bob"), internal, logging_in):
            assert limiting.begin(header(ApiKey.PRODUCE), one, 0.0, 10**9) is None
            assert one.muted_until_s == 0
        alice = peer()
        assert limiting.begin(header(ApiKey.PRODUCE), alice, 0.0, 2_000) is not None
        assert alice.muted_until_s > 0

    run(scenario)


def test_a_connection_remembers_its_limits_until_they_change() -> None:
    async def scenario() -> None:
        limiting = throttling(Entity("alice"), Entity(None, "app"), Entity(DEFAULT, "app"))
        one = peer()
        limiting.begin(header(), one, 0.0, 0)
        of_alice = one.limits
        limiting.begin(header(), one, 0.0, 0)
        assert one.limits is of_alice
        one.principal = "User:bob"
        assert limiting.begin(header(), one, 0.0, 0) is None
        limiting.begin(header(client_id="app"), one, 0.0, 0)
        assert one.limits is not None
        limiting.use(QuotaTable())
        assert limiting.begin(header(client_id="app"), one, 0.0, 0) is None
        assert not limiting.is_active

    run(scenario)


def test_the_answer_names_the_time_that_is_left() -> None:
    async def scenario() -> None:
        one = peer()
        usage = begun(one, ApiKey.PRODUCE, 3_000)
        answer = usage.answered(ProduceResponse([]))
        assert isinstance(answer, ProduceResponse)
        assert 0 < answer.throttle_time_ms <= 2_000
        one.muted_until_s = 0.0
        unlimited = begun(peer(), ApiKey.PRODUCE, 1)
        assert unlimited.answered(ProduceResponse([])) == ProduceResponse([])

    run(scenario)


def test_the_steps_of_a_coroutine_are_counted_and_not_its_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def passes(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def work() -> str:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(passes, WAITED_S)
            await asyncio.sleep(0)
            passes(BUSY_S)
        return "done"

    async def scenario() -> None:
        one = peer()
        usage = throttling().begin(header(), one, now_s, 0)
        assert usage is not None
        passes(BUSY_S)
        usage.pause()
        assert await usage.measure(work()) == "done"
        assert now_s == pytest.approx(4 * BUSY_S + 3 * WAITED_S)
        assert usage._spent_s == pytest.approx(4 * BUSY_S)
        usage.answered(MetadataResponse([], "c", 1, []))
        assert one.muted_until_s > 0, "four times what the bucket holds"

    clock = SimpleNamespace(perf_counter=lambda: now_s)
    monkeypatch.setattr(throttling_module, "time", clock)

    run(scenario)


def test_errors_and_cancellations_reach_the_coroutine() -> None:
    ended: list[str] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("it failed")

    async def waiting() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def scenario() -> None:
        with pytest.raises(ValueError, match="it failed"):
            await begun(peer()).measure(failing())
        task = asyncio.create_task(begun(peer()).measure(waiting()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await begun(peer()).measure(waiting())

    run(scenario)
