"""The ports for probes and metrics, against whoever connects to them: real sockets."""

import asyncio
from collections.abc import Coroutine

import pytest
import uvloop

from chiplog_broker.server import guarded
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import PROBE_CONNECTIONS, serve_health

HOST = "127.0.0.1"
STRANGER = "127.0.0.66"
HANG_GUARD_S = 10.0
PROBE = b"GET /livez HTTP/1.1\r\nHost: broker\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """The probes' port of a broker, and its clients."""

    def __init__(self) -> None:
        self.number = 0
        self.opened: list[asyncio.StreamWriter] = []

    async def connect(self, host: str = STRANGER) -> Streams:
        reader, writer = await asyncio.open_connection(HOST, self.number, local_addr=(host, 0))
        self.opened.append(writer)
        return reader, writer

    async def probe(self) -> bytes:
        """The kubelet's question; returns the first line of the answer."""
        reader, writer = await self.connect(HOST)
        writer.write(PROBE)
        line = await asyncio.wait_for(reader.readline(), HANG_GUARD_S)
        writer.close()
        return line


def with_port(scenario: "Coroutine[object, object, None]", port: Port) -> None:
    async def run() -> None:
        runner = await serve_health(Health(started=True), HOST, 0)
        port.number = runner.addresses[0][1]
        try:
            async with asyncio.timeout(60):
                await scenario
        finally:
            for writer in port.opened:
                writer.transport.abort()
            await runner.cleanup()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(run())


async def is_dropped(reader: asyncio.StreamReader) -> bool:
    try:
        while await asyncio.wait_for(reader.read(65536), HANG_GUARD_S):
            pass
    except ConnectionError:
        return True
    return True


def test_a_probe_is_answered_beside_as_many_connections_as_there_can_be() -> None:
    port = Port()

    async def scenario() -> None:
        strangers = [await port.connect() for _ in range(2 * PROBE_CONNECTIONS)]
        assert (await port.probe()).startswith(b"HTTP/1.1 200")
        oldest, _ = strangers[0]
        assert await is_dropped(oldest)
        # The newest ones of the same address stay, up to the limit.
        reader, writer = strangers[-1]
        writer.write(PROBE)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    with_port(scenario(), port)


@pytest.mark.parametrize(
    "piece", [b"X: " + b"a" * 4000 + b"\r\n", PROBE * 40], ids=["headers", "requests"]
)
def test_a_peer_that_never_stops_is_dropped(piece: bytes) -> None:
    port = Port()

    async def scenario() -> None:
        reader, writer = await port.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /livez HTTP/1.1\r\n" if piece.startswith(b"X") else b"")
        async with asyncio.timeout(HANG_GUARD_S * 3):
            while not writer.is_closing():
                writer.write(piece)
                try:
                    await asyncio.wait_for(writer.drain(), 1)
                except (ConnectionError, TimeoutError):
                    writer.transport.resume_reading()  # type: ignore[attr-defined]
                    break
        assert await is_dropped(reader)

    with_port(scenario(), port)


def test_a_peer_that_says_nothing_or_half_a_request_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded, "HEADER_TIMEOUT_S", 0.2)
    port = Port()

    async def scenario() -> None:
        silent, _ = await port.connect()
        half, writer = await port.connect()
        writer.write(PROBE[:-2])
        assert await is_dropped(silent)
        assert await is_dropped(half)
        assert (await port.probe()).startswith(b"HTTP/1.1 200")

    with_port(scenario(), port)


def test_a_connection_is_kept_for_further_requests() -> None:
    port = Port()

    async def scenario() -> None:
        reader, writer = await port.connect()
        for _ in range(100):
            writer.write(PROBE)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HANG_GUARD_S)
            assert head.startswith(b"HTTP/1.1 200")
            await reader.readexactly(len("alive\n"))

    with_port(scenario(), port)
