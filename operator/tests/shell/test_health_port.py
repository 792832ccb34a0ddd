"""Real sockets on the loopback: what a process that ends looks like, and one that does not."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.naming import ports
from chiplog_core.observed.processes import Identity
from chiplog_core.planner.leadership.refusals import Attempt
from chiplog_operator import refusals
from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import SystemClock
from chiplog_operator.health_port import KEEPALIVE_IDLE_S, IncarnationProbe, SystemNet
from chiplog_operator.refusals import Refusals
from chiplog_operator.waking import Wake

HOST = "127.0.0.1"
KEY = ClusterKey("shop", "demo")
ME = Incarnation("0123456789abcdef" * 2)
WHOM = Identity(broker_id=BrokerId(1), incarnation=ME, pod_uid="u", address=HOST)
ANSWER = f"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{ME}\n".encode()
PROCESS = f"""
import socket, sys
server = socket.create_server(("{HOST}", 0))
print(server.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(server.accept()[0])
    kept[-1].recv(1000)
    kept[-1].sendall({ANSWER!r})
    print("answered", flush=True)
"""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, timeout=120))


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.005)


@asynccontextmanager
async def another_process() -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROCESS, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Server:
    """A health port that does what a test says."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.readers: list[asyncio.StreamReader] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.requests: list[bytes] = []

    async def __aenter__(self) -> "Server":
        self.server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = int(self.server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()
        self.server.close()
        await self.server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.readers.append(reader)
        self.writers.append(writer)
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # who only knocked
        for one in self.pieces:
            writer.write(one)
            await writer.drain()
            await asyncio.sleep(0.005)

    def hang_up(self) -> None:
        for one in self.writers:
            one.transport.abort()


async def conversation(port: int) -> IncarnationProbe:
    return await SystemNet().connect(IncarnationProbe(), HOST, port)


@pytest.mark.parametrize("size_bytes", [1, 7, 1000])
def test_the_answer_is_read_however_it_comes(size_bytes: int) -> None:
    async def scenario() -> None:
        pieces = [ANSWER[at : at + size_bytes] for at in range(0, len(ANSWER), size_bytes)]
        async with Server(*pieces) as server:
            one = await conversation(server.port)
            assert await one.incarnation() == ME
            assert server.requests[0].startswith(b"GET /incarnation HTTP/1.0\r\n")
            ended = asyncio.create_task(one.ended())
            await asyncio.sleep(0.01)
            assert not ended.done()
            server.hang_up()
            await ended

    run(scenario())


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 404 Not Found\r\n\r\n" + b"x" * 9000, b"\0" * 9000, b"x" * 100_000]
)
def test_anything_else_is_no_answer(answer: bytes) -> None:
    async def scenario() -> None:
        async with Server(answer) as server:
            one = await conversation(server.port)
            assert await one.incarnation() is None
            one.close()
            await one.ended()

    run(scenario())


def test_one_that_hangs_up_before_it_has_answered_did_not() -> None:
    async def scenario() -> None:
        async with Server(ANSWER[:-10]) as server:
            one = await conversation(server.port)
            await until(lambda: server.requests)
            server.hang_up()
            assert await one.incarnation() is None
            await one.ended()

    run(scenario())


def test_an_idle_connection_is_kept_alive() -> None:
    async def scenario() -> None:
        async with Server(ANSWER) as server:
            one = await conversation(server.port)
            assert one._transport is not None
            connected = one._transport.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            assert idle_s == KEEPALIVE_IDLE_S
            one.close()

    run(scenario())


class Objects:
    """One broker, in one cluster; nothing is doubted."""

    def __init__(self) -> None:
        self.there = [WHOM]
        self.refused_ones: list[str] = []

    def clusters(self) -> set[ClusterKey]:
        return {KEY}

    def processes(self, _: ClusterKey) -> list[Identity]:
        return self.there

    def from_caches(self, _: ClusterKey) -> None: ...

    def refused(self, _: ClusterKey, incarnation: str, _how: str) -> None:
        self.refused_ones.append(incarnation)


def watches() -> list[str]:
    """The names of all tasks that watch a process."""
    names = (one.get_name() for one in asyncio.all_tasks())
    return [name for name in names if name.startswith("refusals ")]


@asynccontextmanager
async def watching(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Wake, Objects]]:
    monkeypatch.setattr(ports, "HEALTH", port)
    monkeypatch.setattr(refusals, "reason_to_doubt", lambda *_: "")
    objects: Any = Objects()
    clock = SystemClock()
    changed = Wake(clock)
    one = Refusals(SystemNet(), objects, objects, objects, clock=clock, changed=changed)
    task = asyncio.create_task(one.run())
    try:
        yield changed, objects
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert not watches()


def test_a_process_that_is_killed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly always. A kernel closes the sockets of a process one after the other, and where that
    takes long a look in between is answered: then it is for the kubelet to tell."""

    async def is_seen() -> bool:
        async with (
            another_process() as (process, port),
            watching(port, monkeypatch) as (_, objects),
        ):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"answered\n"
            assert objects.refused_ones == []
            process.send_signal(signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    await until(lambda: objects.refused_ones)
            assert objects.refused_ones in ([], [ME])
            return bool(objects.refused_ones)

    async def scenario() -> None:
        assert await is_seen() or await is_seen()

    run(scenario())


def test_a_server_that_hangs_up_and_listens_is_connected_to_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with Server(ANSWER) as server, watching(server.port, monkeypatch) as (_, objects):
            await until(lambda: server.requests)
            server.hang_up()
            await until(lambda: len(server.requests) > 1)
            assert objects.refused_ones == []

    run(scenario())


def test_who_is_gone_from_the_objects_is_watched_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with (
            Server(ANSWER) as server,
            watching(server.port, monkeypatch) as (changed, objects),
        ):
            await until(lambda: server.requests)
            objects.there = []
            changed.set()
            await until(lambda: all(reader.at_eof() for reader in server.readers))
            await until(lambda: not watches())

    run(scenario())


@pytest.mark.parametrize(("port", "outcome"), [(1, Attempt.REFUSED), (0, Attempt.SILENT)])
def test_what_the_kernel_says_of_an_attempt(
    port: int, outcome: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(ports, "HEALTH", port)
        objects: Any = Objects()
        clock = SystemClock()
        one = Refusals(SystemNet(), objects, objects, objects, clock=clock, changed=Wake(clock))
        whom = (
            WHOM
            if outcome is Attempt.REFUSED
            else Identity(
                broker_id=BrokerId(1), incarnation=ME, pod_uid="u", address="no address at all"
            )
        )
        assert await one._attempt(whom) is outcome

    run(scenario())
