"""Brokers as clients of each other: our own internal listener over real sockets."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from chiplog_broker.handlers.sasl import SaslHandlers
from chiplog_broker.handlers.table import api_versions
from chiplog_broker.metadata.listeners import Listener, internal_listener
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import (
    PeerError,
    PeerLost,
    PeerRefused,
    PeerTimedOut,
    PeerUnreachable,
)
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_broker.server.call import Call, Handler
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_wire.client.connection import COPIED_BYTES
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import outgoing, schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.framing import UNAUTHENTICATED_MAX_BYTES
from chiplog_wire.protocol.messages import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

OLD, NEW = Credentials("chiplog", "old"), Credentials("chiplog", "new")
FETCH_VERSION = 11


class Source:
    """Credentials as a test wants them."""

    def __init__(self, *accepted: Credentials) -> None:
        self._accepted = accepted

    def accepted(self) -> tuple[Credentials, ...]:
        return self._accepted


class Server:
    """A broker's internal listener; Fetch answers `max_bytes` bytes after `max_wait_ms`."""

    def __init__(self, listener: Listener) -> None:
        self.was_internal: list[bool] = []
        sasl = SaslHandlers(SystemClock())
        handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: api_versions,
            ApiKey.SASL_HANDSHAKE: sasl.handshake,
            ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
            ApiKey.FETCH: self._fetch,
        }
        metrics = RequestMetrics()
        quota = ConnectionQuota(ConnectionLimits(9, 9, 2**20, 600.0))
        self.acceptor = Acceptor(
            listener,
            Dispatcher(handlers, metrics),
            quota,
            SystemClock(),
            metrics,
            AuditLog(SystemClock().monotonic_s),
        )

    async def _fetch(self, call: Call[FetchRequest]) -> FetchResponse:
        self.was_internal.append(call.peer.is_internal)
        request = call.message
        await asyncio.sleep(request.max_wait_ms / 1000)
        records = bytes([request.min_bytes]) * request.max_bytes
        partition = FetchPartitionResponse(0, 0, 0, records=records)
        return FetchResponse([FetchTopicResponse("t", None, [partition])])


@asynccontextmanager
async def serving(*known: Credentials) -> AsyncIterator[tuple[Server, int]]:
    listener = internal_listener(
        "127.0.0.1", Keyring(Source(*known), SystemRng()), host="127.0.0.1", port=0
    )
    server = Server(listener)
    port = (await server.acceptor.bind()).port
    await server.acceptor.accept()
    try:
        yield server, port
    finally:
        await server.acceptor.close()


def dialer(*known: Credentials, **options: Any) -> Dialer:
    return Dialer(SystemNet().connect, SystemRng(), Source(*known), "broker-1", **options)


def fetch_body(fill: int, size_bytes: int, wait_ms: int = 0) -> list[bytes]:
    head = struct.pack(">iiiibii", 2, wait_ms, fill, size_bytes, 0, 0, -1)
    return [head, struct.pack(">ii", 0, 0), struct.pack(">h", 0)]


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(15):
            await scenario()

    asyncio.run(limited())


def test_a_broker_is_let_in_as_one() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (server, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            assert connection.is_open
            assert connection.versions == {
                api.key: (api.min_version, api.max_version) for api in APIS.values()
            }
            body = await connection.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(7, 10), 5)
            assert bytes(body).endswith(b"\x07" * 10)
            assert server.was_internal == [True]
            connection.close()
            assert not connection.is_open

    run(scenario)


def test_requests_are_pipelined_and_large_answers_stay_as_they_came() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (_, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            sizes = [10, COPIED_BYTES * 2, 900_000, 10, 300_000, COPIED_BYTES, 2, 700_000]
            futures = [
                connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(fill, size))
                for fill, size in enumerate(sizes)
            ]
            assert connection.in_flight == len(sizes)
            bodies = await asyncio.gather(*futures)
            for fill, size in enumerate(sizes):
                assert bytes(bodies[fill]).endswith(bytes([fill]) * size)
            assert connection.in_flight == 0
            connection.close()

    run(scenario)


def test_a_waiting_caller_may_be_cancelled_without_harm_to_others() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (_, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            first = connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 10, 50))
            second = connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(2, 10))
            first.cancel()
            assert bytes(await second).endswith(b"\x02" * 10)
            assert connection.is_open
            connection.close()

    run(scenario)


def test_a_late_answer_costs_the_connection() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (_, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            with pytest.raises(PeerTimedOut, match="Fetch"):
                await connection.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1, 5000), 0.05)
            assert not connection.is_open
            with pytest.raises(PeerTimedOut):
                connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1))

    run(scenario)


def test_what_waits_behind_a_late_answer_fails_too() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (_, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            first = connection.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1, 5000), 0.05)
            second = connection.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(2, 1), 5)
            outcomes = await asyncio.gather(first, second, return_exceptions=True)
            assert [type(one) for one in outcomes] == [PeerTimedOut, PeerTimedOut]

    run(scenario)


def test_a_peer_that_goes_away() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (server, port):
            connection = await dialer(NEW).dial("127.0.0.1", port, 5)
            waiting = connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1, 5000))
            await asyncio.sleep(0.05)
            for one in list(server.acceptor._connections):
                one.abort()
            with pytest.raises(PeerLost):
                await waiting
            with pytest.raises(PeerLost):
                connection.send(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1))

    run(scenario)


def test_a_wrong_password_is_no_way_in() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (server, port):
            with pytest.raises(PeerRefused, match="name or password"):
                await dialer(OLD).dial("127.0.0.1", port, 5)
            await asyncio.sleep(0.05)
            assert server.acceptor._connections == {}

    run(scenario)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [((NEW, OLD), (OLD,)), ((NEW,), (NEW, OLD)), ((OLD,), (NEW, OLD)), ((NEW, OLD), (NEW, OLD))],
)
def test_brokers_keep_talking_while_the_password_changes(
    ours: tuple[Credentials, ...], theirs: tuple[Credentials, ...]
) -> None:
    async def scenario() -> None:
        async with serving(*theirs) as (_, port):
            connection = await dialer(*ours).dial("127.0.0.1", port, 5)
            await connection.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(7, 10), 5)
            connection.close()

    run(scenario)


def test_nobody_at_the_address() -> None:
    async def scenario() -> None:
        async with serving(NEW) as (_, port):
            pass
        with pytest.raises(PeerUnreachable, match=str(port)):
            await dialer(NEW).dial("127.0.0.1", port, 5)

    run(scenario)


# -- whoever else may have the address


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def impostor(talk: Talk) -> AsyncIterator[int]:
    talks: set[asyncio.Task[None]] = set()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        # Each ends when its client has closed the connection.
        await asyncio.gather(*talks)


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """(key, version, correlation id, frame) of a request."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size)
    return *struct.unpack_from(">hhi", frame), frame


def answer_of(key: int, version: int, nonce: bytes) -> bytes:
    """What somebody answers who lets everybody in."""
    match key:
        case ApiKey.API_VERSIONS:
            ranges = [(17, 0, 1), (18, 0, 4), (36, 0, 1)]
            return struct.pack(">hi", 0, 3) + b"".join(struct.pack(">hhh", *one) for one in ranges)
        case ApiKey.SASL_HANDSHAKE:
            return struct.pack(">hi", 0, 0)
        case _:
            token = b"r=%bxyz,s=AAAA,i=4096" % nonce if nonce else b"v=" + b"A" * 86 + b"=="
            response = schema.response_class(ApiKey.SASL_AUTHENTICATE, version)
            return outgoing.encode_request(
                response(error_code=ErrorCode.none, error_message=None, auth_bytes=token)
            )


async def let_everybody_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        key, version, correlation_id, frame = await read_request(reader)
        _, is_first, nonce = frame.partition(b"n,,n=chiplog,r=")
        answer = struct.pack(">i", correlation_id)
        answer += answer_of(key, version, nonce if is_first else b"")
        writer.write(struct.pack(">i", len(answer)) + answer)


def test_who_lets_everybody_in_is_not_of_this_cluster() -> None:
    async def scenario() -> None:
        async with impostor(let_everybody_in) as port:
            with pytest.raises(PeerRefused, match="signature"):
                await dialer(NEW).dial("127.0.0.1", port, 5)

    run(scenario)


def saying(data: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        await reader.read()

    return talk


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", UNAUTHENTICATED_MAX_BYTES + 1),
        struct.pack(">i", 0),
        struct.pack(">iihi", 10, 99, 0, 0),  # an answer to another request
        struct.pack(">ih", 2, 1),
        struct.pack(">iihi", 10, 1, 0, 2**31 - 1),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_nonsense_ends_the_connection(data: bytes) -> None:
    async def scenario() -> None:
        async with impostor(saying(data)) as port:
            with pytest.raises(PeerLost):
                await dialer(NEW).dial("127.0.0.1", port, 5)

    run(scenario)


def test_silence_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with impostor(saying(b"")) as port:
            with pytest.raises(PeerTimedOut):
                await dialer(NEW).dial("127.0.0.1", port, 0.1)

    run(scenario)


def test_an_answer_that_nobody_requested_ends_the_connection() -> None:
    async def scenario() -> None:
        connection = PeerConnection("broker-1")
        async with impostor(saying(struct.pack(">ii", 4, 1) * 2)) as port:
            await SystemNet().connect(connection, "127.0.0.1", port)
            body = await connection.exchange(ApiKey.METADATA, 1, [struct.pack(">i", -1)], 5)
            assert bytes(body) == b""
            await asyncio.sleep(0.05)
            assert not connection.is_open

    run(scenario)


def test_versions_are_those_that_both_speak() -> None:
    connection = PeerConnection("broker-1")
    connection.wire.versions = {
        ApiKey.FETCH: (4, 99),
        ApiKey.METADATA: (0, 5),
        ApiKey.PRODUCE: (13, 13),
    }
    assert connection.common_version(ApiKey.FETCH) == APIS[ApiKey.FETCH].max_version
    assert connection.common_version(ApiKey.METADATA) == 5
    for key in (ApiKey.PRODUCE, ApiKey.LIST_OFFSETS):
        with pytest.raises(PeerError, match="no common version"):
            connection.common_version(key)


def test_before_it_is_connected_nothing_can_be_sent() -> None:
    async def scenario() -> None:
        with pytest.raises(PeerLost):
            PeerConnection("broker-1").send(ApiKey.METADATA, 1, [])

    run(scenario)


def test_fixed_credentials_are_a_source() -> None:
    assert FixedCredentials(NEW).accepted() == (NEW,)
