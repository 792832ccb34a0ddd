"""What peers can do to a broker, by malice or by dying: real sockets, a real broker."""

import asyncio
import resource
import struct
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.server import file_sending
from chiplog_broker.server.connection import Connection
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none


def test_connections_are_bounded_in_number(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(max_connections="3") as client:
            others = [await kit.client() for _ in range(3)]
            assert await others[2].is_closed()
            others[0].writer.close()
            await asyncio.sleep(0.05)
            await (await kit.client()).metadata()
            await client.metadata()

    kit.run(scenario)


def test_connections_are_bounded_for_one_address(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(max_connections_per_ip="1") as client:
            assert await (await kit.client()).is_closed()
            await client.metadata()
            assert kit.broker.requests.refused_total == 1

    kit.run(scenario)


def test_quotas_count_over_all_listeners() -> None:
    quota = ConnectionQuota(ConnectionLimits(3, 2, 1, 1.0))
    assert [quota.enter(host) for host in ("a", "a", "a", "b", "b")] == [
        True,
        True,
        False,
        True,
        False,
    ]
    quota.leave("a")
    assert quota.enter("b")


def test_a_client_that_never_reads_stops_being_served(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where answers are held in memory, which those from files are not."""
    monkeypatch.setattr(file_sending, "SENDFILE_FROM_BYTES", 2**40)

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            value = kit.batch(b"x" * 1_000_000)
            for _ in range(8):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            await client.create("small")
            await client.produce("small", kit.batch(b"x"))
            small_id = await client.topic_id("small")
            deaf = await kit.client()
            request = deaf.fetch_request(
                topic_id, (0, 0), max_bytes=2**30, partition_max_bytes=2**30
            )
            for _ in range(50):
                await deaf.send(ApiKey.FETCH, request)
            await asyncio.sleep(0.2)
            requests = kit.broker.requests
            assert requests.apis[ApiKey.FETCH].latency.total < 5
            assert requests.unsent_bytes > 0
            (budget, _) = requests.budgets
            assert budget.taken_bytes >= requests.unsent_bytes
            # While too much waits to be taken, there is room for small answers only.
            budget.taken_bytes += budget.limit_bytes
            ((code, records),) = await client.fetch(topic_id, (0, 0))
            assert (code, records) == (OK, b"")
            ((_, records),) = await client.fetch(small_id, (0, 0))
            assert records
            budget.taken_bytes -= budget.limit_bytes
            ((_, records),) = await client.fetch(topic_id, (0, 0))
            assert 1_000_000 < len(records) < 1_100_000
            deaf.writer.transport.abort()
            await asyncio.sleep(0.1)
            assert requests.unsent_bytes == 0
            assert budget.taken_bytes < 2**20, "the buffer of the other one"

    kit.run(scenario)


def test_each_listener_advertises_its_own_address(kit: "Kit") -> None:
    async def scenario() -> None:
        broker = kit.new_broker(
            listeners=[
                Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0),
                Listener("EXTERNAL", "127.0.0.1", 0, "broker.example", 7777),
            ]
        )
        await broker.start()
        try:
            client = await kit.client()
            (node,) = (await client.metadata()).brokers
            assert (node.host, node.port) == broker.addresses["PLAINTEXT"]
            client.writer.close()
        finally:
            await broker.stop()

    kit.run(scenario)


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def listening(limits: ConnectionLimits) -> tuple[Acceptor, Listener]:
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
    acceptor = Acceptor(
        listener,
        Dispatcher({}, RequestMetrics()),
        ConnectionQuota(limits),
        Clock(),
        RequestMetrics(),
        AuditLog(lambda: 0.0),
    )
    bound = await acceptor.bind()
    await acceptor.accept()
    return acceptor, bound


def test_the_silent_and_the_slow_are_dropped(kit: "Kit") -> None:
    async def scenario() -> None:
        acceptor, bound = await listening(ConnectionLimits(9, 9, 2**20, 600.0))
        silent, slow, quick = [
            await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(3)
        ]
        slow[1].write(struct.pack(">i", 1000) + b"x" * 10)
        quick[1].write(struct.pack(">i", 2**20) + b"x" * 200_000)
        await asyncio.sleep(0.1)
        acceptor.sweep(29.0)
        await asyncio.sleep(0.05)
        assert len(acceptor._connections) == 3
        acceptor.sweep(31.0)
        assert await slow[0].read() == b""
        acceptor.sweep(599.0)
        await asyncio.sleep(0.05)
        assert not silent[0].at_eof()
        acceptor.sweep(601.0)
        assert await silent[0].read() == b""
        for _, writer in (silent, slow, quick):
            writer.close()
        await acceptor.close()

    kit.run(scenario)


def test_a_request_that_came_quickly_and_then_stopped_is_dropped_soon(kit: "Kit") -> None:
    """By its average speed a megabyte and then silence would be kept for a quarter of an hour."""

    async def scenario() -> None:
        acceptor, bound = await listening(ConnectionLimits(9, 9, 2**21, 6000.0))
        stopped, steady = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(2)]
        for _, writer in (stopped, steady):
            writer.write(struct.pack(">i", 2**21 - 1) + b"x" * 2**20)
            await writer.drain()
        reading, dropped_s = asyncio.create_task(stopped[0].read()), 0
        for now_s in range(5, 100, 5):
            steady[1].write(b"x" * 5 * 1100)
            await asyncio.sleep(0.02)
            acceptor.sweep(float(now_s))
            await asyncio.sleep(0.02)
            if reading.done() and not dropped_s:
                dropped_s = now_s
        assert 30 <= dropped_s <= 65
        assert not steady[0].at_eof(), "slow, but it goes on"
        for _, writer in (stopped, steady):
            writer.close()
        await acceptor.close()

    kit.run(scenario)


def test_a_connection_at_rest_holds_no_buffer(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for _ in range(3):
                await client.produce("orders", kit.batch(b"x" * 900_000))
            (acceptor,) = kit.broker.acceptors
            (connection,) = acceptor._connections
            assert isinstance(connection, Connection)
            assert connection._reader.capacity_bytes > 100_000
            acceptor.sweep(0.0)
            acceptor.sweep(1.0)
            assert connection._reader.capacity_bytes == 0
            await client.metadata()

    kit.run(scenario)


def test_two_thousand_idle_connections_cost_little(kit: "Kit") -> None:
    async def scenario() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        async with kit.running() as client:
            address = kit.broker.addresses["PLAINTEXT"]
            loop = asyncio.get_running_loop()
            before = resident_bytes()
            idle = [
                (await loop.create_connection(asyncio.Protocol, *address))[0] for _ in range(2000)
            ]
            await client.metadata()
            # Both ends of each connection are in this process.
            assert resident_bytes() - before < 2 * 2000 * 6500
            for transport in idle:
                transport.abort()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    kit.run(scenario)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123
        return int(status.read().split()[1]) * resource.getpagesize()
