"""`/incarnation` over real HTTP: it is answered, it goes on, and it ends with the process."""

import asyncio
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from chiplog_broker.broker import Broker
from chiplog_broker.directory_ports import directory_ports
from chiplog_broker.main import Addresses, serve
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import serve_health
from chiplog_broker.server.incarnation import MAX_OPEN

ME = "0123456789abcdef" * 2
HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, timeout=120))


class Served:
    """A health port on the loopback."""

    def __init__(self, health: Health) -> None:
        self.health = health
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Served":
        self.runner = await serve_health(self.health, HOST, 0)
        self.port = int(self.runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._open:
            one.close()
        await self.runner.cleanup()

    async def ask(self, path: str, version: str = "1.0") -> Streams:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        self._open.append(writer)
        writer.write(f"GET {path} HTTP/{version}\r\nHost: broker\r\n\r\n".encode())
        return reader, writer

    async def watch(self) -> Streams:
        """A connection that was told who is there."""
        reader, writer = await self.ask("/incarnation")
        assert await body(reader) == ME
        return reader, writer


async def body(reader: asyncio.StreamReader) -> str:
    """The first line after the head."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    return (await reader.readline()).decode().strip()


async def status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


def test_the_answer_stays_open_and_ends_with_the_server_which_refuses_then() -> None:
    async def scenario() -> None:
        async with Served(Health(incarnation=ME)) as served:
            reader, _ = await served.watch()
            probe, _ = await served.ask("/livez")
            assert await status(probe) == 200, "probes are answered beside it"
            assert not reader.at_eof()
            await served.runner.cleanup()
            assert await reader.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(HOST, served.port)

    run(scenario())


def test_a_request_may_be_chunked() -> None:
    async def scenario() -> None:
        async with Served(Health(incarnation=ME)) as served:
            reader, _ = await served.ask("/incarnation", version="1.1")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"chunked" in head
            assert await reader.readuntil(b"\n\r\n") == f"21\r\n{ME}\n\r\n".encode()

    run(scenario())


def test_a_process_without_a_name_says_so() -> None:
    async def scenario() -> None:
        async with Served(Health()) as served:
            reader, _ = await served.ask("/incarnation")
            assert await status(reader) == 404

    run(scenario())


def test_of_too_many_the_oldest_ends_and_probes_continue() -> None:
    async def scenario() -> None:
        async with Served(Health(incarnation=ME)) as served:
            watching = [(await served.watch())[0] for _ in range(MAX_OPEN)]
            newest, _ = await served.watch()
            assert await watching[0].read() == b""
            probe, _ = await served.ask("/readyz")
            assert await status(probe) == 503
            again, _ = await served.watch()
            assert await watching[1].read() == b""
            assert not any(one.at_eof() for one in (*watching[2:], newest, again))

    run(scenario())


def test_who_hangs_up_leaves_nothing_behind() -> None:
    """More come and go than may be open at once, and the one that stays is never the oldest."""

    async def scenario() -> None:
        async with Served(Health(incarnation=ME)) as served:
            staying, _ = await served.watch()
            tasks = len(asyncio.all_tasks())
            for _ in range(3 * MAX_OPEN):
                _, writer = await served.watch()
                writer.close()
                while len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110 - the server's own
                    await asyncio.sleep(0.001)
            assert not staying.at_eof()

    run(scenario())


def test_who_hangs_up_at_once_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Served(Health(incarnation=ME)) as served:
            for _ in range(3 * MAX_OPEN):
                _, writer = await served.ask("/incarnation")
                writer.transport.abort()
            await served.watch()

    run(scenario())
    assert not [one for one in caplog.records if one.levelname in {"WARNING", "ERROR"}]


class Named(Broker):
    """Has a name, and nothing to start."""

    def __init__(self) -> None:
        self.health = Health(incarnation=ME)
        self.is_asked = asyncio.Event()

    async def start(self) -> None:
        await self.is_asked.wait()

    def exposition(self) -> Any:
        """Asked for when metrics are served, and by nobody here."""
        return None

    async def deposed(self) -> str:
        return "that will do"

    async def stop(self) -> None: ...


def test_the_process_answers_while_it_starts_and_an_open_answer_holds_up_no_end(
    unused_port: int,
) -> None:
    async def scenario() -> None:
        broker = Named()
        addresses = Addresses((HOST, unused_port), (HOST, 0))
        process = asyncio.get_running_loop().create_task(serve(broker, addresses))
        while True:
            try:
                reader, writer = await asyncio.open_connection(HOST, unused_port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        writer.write(b"GET /incarnation HTTP/1.0\r\n\r\n")
        assert await body(reader) == ME
        broker.is_asked.set()
        assert await reader.read() == b""
        await asyncio.wait({process})
        assert "that will do" in str(process.exception())
        writer.close()

    run(scenario())


@pytest.fixture
def unused_port() -> int:
    with socket.create_server((HOST, 0)) as one:
        return int(one.getsockname()[1])


def test_a_broker_that_runs_alone_has_no_name(tmp_path: Path) -> None:
    ports = directory_ports("--standalone", tmp_path / "d")
    assert Broker(ports, {}, [], str(tmp_path / "d")).health.incarnation is None
