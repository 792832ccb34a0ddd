"""Answers leave in the order of their requests, whatever order they become ready in."""

import asyncio
import struct
from collections.abc import Callable, Coroutine

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.server.connection import MAX_WAITING, AnyRequest, Connection, Started
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.requests import Request

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)


class Transport(asyncio.Transport):
    """Records what is written and whether the socket would be read."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.reading = True
        self.closed = False

    def writelines(self, list_of_data: object) -> None:
        self.sent += list_of_data  # type: ignore[arg-type]

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.sent))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


class Service:
    """Answers at once, except what `wait` names, which tests answer by hand."""

    def __init__(self, waits: Callable[[ApiKey], bool]) -> None:
        self.waits = waits
        self.started: list[int] = []
        self.futures: dict[int, asyncio.Future[list[bytes]]] = {}
        self.why: Exception | None = None
        self.unsent_bytes = 0

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        assert isinstance(request, Request)
        number = request.header.correlation_id
        self.started.append(number)
        if self.waits(request.header.api_key):
            self.futures[number] = asyncio.get_running_loop().create_future()
            return self.futures[number]
        return [str(number).encode()]

    def connected(self, connection: Connection) -> Peer | None:
        return Peer("127.0.0.1", 50000, LISTENER)

    def unsent(self, change_bytes: int) -> None:
        self.unsent_bytes += change_bytes

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        self.why = why


def frame(key: ApiKey, correlation_id: int) -> bytes:
    version = 3 if key is ApiKey.PRODUCE else 4
    header = struct.pack(">hhih", key, version, correlation_id, -1)
    return struct.pack(">i", len(header)) + header


def feed(connection: Connection, data: bytes) -> None:
    while data:
        room = connection.get_buffer(-1)
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        connection.buffer_updated(taken)
        data = data[taken:]


def run(scenario: Coroutine[object, object, None]) -> None:
    asyncio.run(scenario)


async def turn() -> None:
    """Let callbacks that are due run."""
    for _ in range(3):
        await asyncio.sleep(0)


def connected(service: Service) -> tuple[Connection, Transport]:
    connection, transport = Connection(service, 1 << 20), Transport()
    connection.connection_made(transport)
    return connection, transport


def test_produces_behind_a_waiting_produce_start_and_are_answered_in_order() -> None:
    async def scenario() -> None:
        service = Service(lambda key: key is ApiKey.PRODUCE)
        connection, transport = connected(service)
        feed(connection, b"".join(frame(ApiKey.PRODUCE, number) for number in range(3)))
        assert service.started == [0, 1, 2]
        service.futures[2].set_result([b"2"])
        service.futures[1].set_result([b"1"])
        await turn()
        assert transport.sent == []
        service.futures[0].set_result([b"0"])
        await turn()
        assert transport.sent == [b"0", b"1", b"2"]
        assert connection.idle

    run(scenario())


def test_nothing_starts_behind_a_waiting_fetch_and_the_socket_is_not_read() -> None:
    async def scenario() -> None:
        service = Service(lambda key: key is ApiKey.FETCH)
        connection, transport = connected(service)
        feed(connection, frame(ApiKey.FETCH, 0) + frame(ApiKey.METADATA, 1))
        assert service.started == [0]
        assert not transport.reading
        service.futures[0].set_result([b"0"])
        await turn()
        assert transport.sent == [b"0", b"1"]
        assert transport.reading

    run(scenario())


def test_what_is_no_produce_does_not_overtake_a_waiting_produce() -> None:
    async def scenario() -> None:
        service = Service(lambda key: key is ApiKey.PRODUCE)
        connection, transport = connected(service)
        feed(connection, frame(ApiKey.PRODUCE, 0) + frame(ApiKey.METADATA, 1))
        assert service.started == [0]
        service.futures[0].set_result([b"0"])
        await turn()
        assert transport.sent == [b"0", b"1"]

    run(scenario())


def test_waiting_produces_are_bounded() -> None:
    async def scenario() -> None:
        service = Service(lambda key: key is ApiKey.PRODUCE)
        connection, transport = connected(service)
        feed(connection, b"".join(frame(ApiKey.PRODUCE, n) for n in range(MAX_WAITING + 5)))
        assert len(service.started) == MAX_WAITING
        assert not transport.reading
        for number in range(MAX_WAITING):
            service.futures[number].set_result([b"x"])
        await turn()
        assert len(service.started) == MAX_WAITING + 5

    run(scenario())


def test_a_client_that_does_not_take_its_answers_is_not_served() -> None:
    async def scenario() -> None:
        service = Service(lambda _: False)
        connection, transport = connected(service)
        connection.pause_writing()
        feed(connection, frame(ApiKey.METADATA, 0))
        assert service.started == []
        assert not transport.reading
        connection.resume_writing()
        assert transport.sent == [b"0"]
        assert transport.reading

    run(scenario())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">ihhih", 10, 9999, 0, 1, -1),
    ],
    ids=["http", "huge", "negative", "unknown-api"],
)
def test_garbage_closes_the_connection_and_says_why(garbage: bytes) -> None:
    async def scenario() -> None:
        service = Service(lambda _: False)
        connection, transport = connected(service)
        feed(connection, garbage)
        assert transport.closed
        connection.connection_lost(None)
        assert isinstance(service.why, ProtocolViolation)

    run(scenario())


def test_a_lost_connection_cancels_what_waits() -> None:
    async def scenario() -> None:
        service = Service(lambda _: True)
        connection, _ = connected(service)
        feed(connection, frame(ApiKey.FETCH, 0))
        connection.connection_lost(None)
        assert service.futures[0].cancelled()
        await turn()

    run(scenario())


@pytest.mark.parametrize("is_broker", [True, False])
def test_a_request_behind_the_waiting_fetch_of_a_broker_ends_its_wait(is_broker: bool) -> None:
    class Waiting(Service):
        def start(self, request: AnyRequest, peer: Peer) -> Started:
            started = super().start(request, peer)
            peer.end_wait = self.end_wait if is_broker and self.started == [1] else None
            return started

        def end_wait(self) -> None:
            self.futures[1].set_result([b"1"])

    async def scenario() -> None:
        service = Waiting(lambda key: key is ApiKey.FETCH)
        connection, transport = connected(service)
        later = frame(ApiKey.METADATA, 2)
        feed(connection, frame(ApiKey.FETCH, 1) + later[:5])
        await turn()
        assert transport.sent == []
        assert transport.reading == is_broker
        feed(connection, later[5:])
        await turn()
        if not is_broker:
            assert transport.sent == []
            service.end_wait()
            await turn()
        assert transport.sent == [b"1", b"2"]
        assert transport.reading

    run(scenario())
