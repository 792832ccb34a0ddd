"""A client that writes requests byte by byte, so that it can send what no client library would.

Bodies use versions without compact lengths where possible, as these are simpler to write.
"""

import asyncio
import struct
from typing import Self

import cramjam
import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 11, 12, 13, 14, 15
API_VERSIONS, CREATE_TOPICS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 18, 19, 21, 23
DESCRIBE_CONFIGS, DELETE_GROUPS = 32, 42

GZIP, ZSTD = 1, 4
ANSWER_LIMIT_S = 60.0
ALREADY_EXISTS = 36


class Stranger:
    """A client with one connection. `ask` returns the response's bytes after the correlation id."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def at(cls, address: tuple[str, int]) -> Self:
        """Connect to an address."""
        return cls(*await asyncio.open_connection(*address, limit=2**26))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, api_key: int, version: int, body: bytes, *, tags: bytes = b"") -> None:
        """Send a request without waiting for the answer.

        `tags` are the header's tagged fields, which only flexible versions have: `b"\\0"` is none.
        """
        # 7 is the correlation id, -1 stands for a null client id.
        self.send_raw(struct.pack(">hhih", api_key, version, 7, -1) + tags + body)

    def send_raw(self, frame: bytes) -> None:
        """Send a request that is complete but for its size in front."""
        self._writer.write(struct.pack(">i", len(frame)) + frame)

    async def receive(self) -> bytes:
        """The next response after its correlation id.

        Raises `ConnectionError` if the broker closes the connection, and `TimeoutError` after
        `ANSWER_LIMIT_S`.
        """
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                await self._writer.drain()
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                return (await self._reader.readexactly(size))[4:]
        except asyncio.IncompleteReadError as closed:
            raise ConnectionResetError("the broker has closed the connection") from closed

    async def ask(self, api_key: int, version: int, body: bytes, *, tags: bytes = b"") -> bytes:
        """Send a request, see `send`, and return its response, see `receive`."""
        self.send(api_key, version, body, tags=tags)
        return await self.receive()

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic with one replica; a topic that exists already stays as it is.

        `configs` are topic configs, with `_` for `.` in their names.
        """
        pairs = [text(key.replace("_", ".")) + text(value) for key, value in configs.items()]
        topic = text(name) + struct.pack(">ihi", partitions, -1, 0) + array(pairs)
        answer = await self.ask(
            CREATE_TOPICS, 4, array([topic]) + struct.pack(">i?", 10_000, False)
        )
        # Before the code: throttle time, number of topics, length of the name, the name.
        (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
        if code not in {0, ALREADY_EXISTS}:
            raise RuntimeError(f"topic {name} was not created: Kafka error code {code}")

    async def produce(self, topic: str, *batches: bytes, acks: int = 1) -> int:
        """Send each batch as an entry of partition 0, all in one Produce.

        Returns the first entry's Kafka error code; 0 is none.
        """
        parts = [struct.pack(">ii", 0, len(one)) + one for one in batches]
        body = struct.pack(">hhi", -1, acks, 30_000) + array([text(topic) + array(parts)])
        answer = await self.ask(PRODUCE, 8, body)
        # Before the code: number of topics, the topic's name, number of partitions, partition.
        (code,) = struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)
        return int(code)


def text(value: str) -> bytes:
    """A STRING of the Kafka protocol: two bytes of length, then UTF-8."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def data(value: bytes) -> bytes:
    """A BYTES field of the Kafka protocol: four bytes of length, then the value."""
    return struct.pack(">i", len(value)) + value


def array(items: list[bytes]) -> bytes:
    """An ARRAY of the Kafka protocol: four bytes of count, then the encoded elements."""
    return struct.pack(">i", len(items)) + b"".join(items)


def uvarint(value: int) -> bytes:
    """An UNSIGNED_VARINT, as flexible versions write counts and lengths."""
    output = bytearray()
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def varint(value: int) -> bytes:
    """A zigzag VARINT, as records write their lengths and deltas."""
    return uvarint((value << 1) ^ (value >> 63))


def record(offset_delta: int, key: bytes | None = None, time_delta_ms: int = 0) -> bytes:
    """A record of format 2 with a null value and no headers."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(time_delta_ms) + varint(offset_delta) + keyed + varint(-1) + varint(0)
    return varint(len(body)) + body


def batch(
    payload: bytes, count: int, *, first_ms: int, max_ms: int | None = None, codec: int = 0
) -> bytes:
    """A batch of format 2 around encoded records, with a correct checksum.

    `max_ms` is the newest timestamp that the header claims, whatever the records have; None means
    `first_ms`. `codec` is `GZIP`, `ZSTD` or 0 for uncompressed.
    """
    if codec:
        packed = {GZIP: cramjam.gzip, ZSTD: cramjam.zstd}[codec].compress(payload)
        payload = bytes(packed)
    newest_ms = first_ms if max_ms is None else max_ms
    checked = struct.pack(">hiqqqhii", codec, count - 1, first_ms, newest_ms, -1, -1, -1, count)
    checked += payload
    rest = struct.pack(">ibI", 0, 2, crc32c.crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest
