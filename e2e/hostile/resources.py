"""Attacks on memory, on descriptors, and on the ports that speak HTTP."""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Producer

from e2e.clients.by_librdkafka import QUIET
from e2e.clients.hostile import FETCH, METADATA, MIB, PRODUCE, framed, header, request

# The attackers' source address: to the broker, they are on another machine than the other client.
STRANGER = "127.0.0.66"
OPEN_LIMIT_S = 5.0
CHUNK = bytes(256 * 1024)
LARGE_FRAME_BYTES = 99 * MIB
LARGE_FRAMES = 12
SMALL_FRAMES = 600
SMALL_FRAME_BYTES = 900 * 1024
SLEEPERS = 48
STORED_BATCHES, STORED_BATCH_BYTES = 28, 900 * 1024
MANY_CONNECTIONS = 3_000
HTTP_CONNECTIONS = 300
TOPIC = "hostile-sleepers"


@dataclass
class Strangers:
    """The connections of one attack, all from the address `STRANGER`, and how they ended.

    `opened`, `refused` and `closed` count connections; `closed` are those that the broker closed.
    """

    address: tuple[str, int]
    until_s: float
    opened: int = 0
    refused: int = 0
    closed: int = 0
    held: list[asyncio.StreamWriter] = field(default_factory=list)

    @classmethod
    def at(cls, address: tuple[str, int], seconds: float) -> "Strangers":
        """Connections to this address for a duration that begins now."""
        return cls(address, time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds until the attack is over; 0 afterwards."""
        return max(self.until_s - time.monotonic(), 0.0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Open a connection; None if the broker does not accept it within `OPEN_LIMIT_S`."""
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                pair = await asyncio.open_connection(*self.address, local_addr=(STRANGER, 0))
        except (OSError, TimeoutError):
            self.refused += 1
            return None
        self.opened += 1
        self.held.append(pair[1])
        return pair

    async def each(self, count: int, act: Callable[["Strangers"], Awaitable[None]]) -> None:
        """Run `count` concurrent calls of `act` until the attack ends; then abort all connections.

        Connections stay open until the end even if all calls of `act` return earlier.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.left_s):
                await asyncio.gather(*(self._one(act) for _ in range(count)))
                await asyncio.sleep(self.left_s)
        for writer in self.held:
            writer.transport.abort()

    async def _one(self, act: Callable[["Strangers"], Awaitable[None]]) -> None:
        """Run `act` once; a connection that breaks counts as closed by the broker."""
        try:
            await act(self)
        except (OSError, asyncio.IncompleteReadError):
            self.closed += 1

    def __str__(self) -> str:
        return f"{self.opened} connections, {self.refused} refused, {self.closed} closed by it"


async def until_closed(reader: asyncio.StreamReader) -> None:
    """Discard what arrives; raises `ConnectionResetError` when the broker closes the connection."""
    while await reader.read(65536):
        pass
    raise ConnectionResetError


async def sent(writer: asyncio.StreamWriter, pieces: Iterator[bytes], pause_s: float) -> None:
    """Send the pieces with a pause of `pause_s` after each.

    Raises `OSError` if the broker has closed the connection.
    """
    for piece in pieces:
        if writer.is_closing():
            raise ConnectionResetError
        writer.write(piece)
        await writer.drain()
        if pause_s:
            await asyncio.sleep(pause_s)


async def large_frames(address: tuple[str, int], seconds: float) -> str:
    """Send all but the end of a request of 99 MiB on each of 12 connections, then nothing more."""
    return await unfinished(address, seconds, LARGE_FRAMES, LARGE_FRAME_BYTES)


async def small_frames(address: tuple[str, int], seconds: float) -> str:
    """Send all but the end of a Produce of a usual size on each of 600 connections."""
    return await unfinished(address, seconds, SMALL_FRAMES, SMALL_FRAME_BYTES)


async def unfinished(address: tuple[str, int], seconds: float, count: int, size: int) -> str:
    """Send requests that announce `size` bytes and never end, on `count` connections at a time.

    The broker has to keep what it received while it waits for the rest. A connection that the
    broker closes is opened again.
    """

    async def act(all_of_them: Strangers) -> None:
        while all_of_them.left_s and (pair := await all_of_them.connect()) is not None:
            reader, writer = pair
            writer.write(struct.pack(">i", size) + header(PRODUCE, 8))
            chunks = (CHUNK[: min(len(CHUNK), size - at)] for at in range(1024, size, len(CHUNK)))
            try:
                await sent(writer, (one[:-1024] for one in chunks), pause_s=0)
                await until_closed(reader)
            except OSError:
                all_of_them.closed += 1
                await asyncio.sleep(0.05)

    strangers = Strangers.at(address, seconds)
    await strangers.each(count, act)
    return str(strangers)


async def sleepers(address: tuple[str, int], seconds: float) -> str:
    """Send Fetches that wait for 50 MiB, which the topic does not have, and never read the answers.

    All of them time out after about a second; the broker then holds 48 answers of 25 MB at once.
    """
    await store(address)

    async def act(all_of_them: Strangers) -> None:
        while all_of_them.left_s and (pair := await all_of_them.connect()) is not None:
            reader, writer = pair
            # Without this, asyncio would read the answer into its own buffer.
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
            writer.write(fetch(max_wait_ms=1_000, min_bytes=50 * MIB, max_bytes=55 * MIB))
            await asyncio.sleep(4)
            writer.transport.abort()

    strangers = Strangers.at(address, seconds)
    await strangers.each(SLEEPERS, act)
    return str(strangers)


def fetch(*, max_wait_ms: int, min_bytes: int, max_bytes: int) -> bytes:
    """A framed Fetch 4 for partition 0 of `TOPIC` from offset 0."""
    name = TOPIC.encode()
    partition = struct.pack(">iiqi", 1, 0, 0, max_bytes)
    topics = struct.pack(">ih", 1, len(name)) + name + partition
    head = struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0)
    return request(FETCH, 4, head + topics)


async def store(address: tuple[str, int]) -> None:
    """Write the 25 MB that `sleepers` fetches into `TOPIC`, which must exist already."""
    await asyncio.to_thread(store_by_librdkafka, f"{address[0]}:{address[1]}")


def store_by_librdkafka(bootstrap: str) -> None:
    """Produce `STORED_BATCHES` batches of one record each; blocks until they are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET})
    for _ in range(STORED_BATCHES):
        producer.produce(TOPIC, bytes(STORED_BATCH_BYTES), partition=0)
        producer.flush(10)


async def connections(address: tuple[str, int], seconds: float) -> str:
    """Hold 3,000 connections open, each with a request that lacks its last 100 bytes.

    A connection that the broker refuses or closes is opened again after a second.
    """

    async def act(all_of_them: Strangers) -> None:
        while all_of_them.left_s:
            pair = await all_of_them.connect()
            if pair is None:
                await asyncio.sleep(1)
                continue
            reader, writer = pair
            try:
                writer.write(framed(header(METADATA, 1) + bytes(12_000))[:-100])
                await until_closed(reader)
            except OSError:
                all_of_them.closed += 1
                await asyncio.sleep(1)

    strangers = Strangers.at(address, seconds)
    await strangers.each(MANY_CONNECTIONS, act)
    return str(strangers)


async def scrapes(address: tuple[str, int], seconds: float) -> str:
    """Ask for all metrics on 100 connections, again and again without a pause."""
    answers = 0

    async def act(all_of_them: Strangers) -> None:
        nonlocal answers
        while all_of_them.left_s:
            pair = await all_of_them.connect()
            if pair is None:
                await asyncio.sleep(0.2)
                continue
            reader, writer = pair
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    writer.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n")
                    await reader.readuntil(b"\r\n\r\n")
                    answers += 1
            await asyncio.sleep(0.05)

    strangers = Strangers.at(address, seconds)
    await strangers.each(HTTP_CONNECTIONS // 3, act)
    return f"{answers} answers; {strangers}"


async def headers(address: tuple[str, int], seconds: float) -> str:
    """Send HTTP requests with an endless list of headers on 300 connections."""

    async def act(all_of_them: Strangers) -> None:
        while all_of_them.left_s:
            pair = await all_of_them.connect()
            if pair is None:
                await asyncio.sleep(0.2)
                continue
            _, writer = pair
            try:
                writer.write(b"GET /metrics HTTP/1.1\r\n")
                endless = (b"X-%d: %s\r\n" % (n, b"a" * 4000) for n in range(10**6))
                await sent(writer, endless, pause_s=0.01)
            except OSError:
                all_of_them.closed += 1
                await asyncio.sleep(0.2)

    strangers = Strangers.at(address, seconds)
    await strangers.each(HTTP_CONNECTIONS, act)
    return str(strangers)


async def unread(address: tuple[str, int], seconds: float) -> str:
    """Send thousands of HTTP requests on each of 300 connections without reading any answer."""

    async def act(all_of_them: Strangers) -> None:
        while all_of_them.left_s:
            pair = await all_of_them.connect()
            if pair is None:
                await asyncio.sleep(0.2)
                continue
            reader, writer = pair
            # Without this, asyncio would read the answers into its own buffer.
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
            try:
                asked = b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n" * 100
                await sent(writer, (asked for _ in range(1000)), pause_s=0.05)
            except OSError:
                all_of_them.closed += 1
                await asyncio.sleep(0.2)

    strangers = Strangers.at(address, seconds)
    await strangers.each(HTTP_CONNECTIONS, act)
    return str(strangers)


ATTACKS: dict[str, Callable[[tuple[str, int], float], Awaitable[str]]] = {
    "12 requests of 99 MB that do not end": large_frames,
    "600 requests of 900 kB that do not end": small_frames,
    "48 sleeping fetches of 25 MB that nobody reads": sleepers,
    "3,000 connections": connections,
}
HTTP: dict[str, Callable[[tuple[str, int], float], Awaitable[str]]] = {
    "100 scrapers": scrapes,
    "300 requests with endless headers": headers,
    "300 clients that read no answer": unread,
}
