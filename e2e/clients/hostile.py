"""Malformed input to a broker's port: all kinds of bytes that are no valid Kafka requests.

Each attack is a name and the bytes that one connection sends. A broker must answer with a
well-formed frame or close the connection; it must not leave the connection open without an answer,
nor keep memory for it.
"""

import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import cramjam
import crc32c

PRODUCE, FETCH, METADATA, UNKNOWN_KEY = 0, 1, 3, 32_000
INT_MAX = 2**31 - 1
CORRELATION_ID = 7
ZSTD = 4
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Attack:
    """The bytes that one connection sends."""

    name: str
    data: bytes
    half_closes: bool = False
    """Whether the client shuts down its sending side after `data`. If not, the broker must react
    without seeing an end of the input."""


def attacks() -> Iterator[Attack]:
    """All attacks; the random bytes are the same in every run."""
    chance = random.Random(9092)  # noqa: S311 - the same in every run
    yield Attack("random bytes", chance.randbytes(MIB), half_closes=True)
    yield Attack("an HTTP request", b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
    yield Attack("a length of 2^31-1", struct.pack(">i", INT_MAX) + chance.randbytes(1000))
    yield Attack("a negative length", struct.pack(">i", -1))
    yield Attack("half a frame", request(METADATA, 1, b"\xff" * 4)[:-2], half_closes=True)
    yield Attack("a frame too short for a header", framed(b"\0\x03"), half_closes=True)
    yield Attack("an unknown api key", request(UNKNOWN_KEY, 0, b""))
    yield Attack("an unknown version", request(METADATA, 99, b"\xff" * 4))
    yield Attack("a client id longer than its frame", framed(header(METADATA, 1, 32_000)))
    many = struct.pack(">i", INT_MAX)
    yield Attack("2^31-1 topics in Metadata", request(METADATA, 1, many))
    yield Attack("2^31-1 topics in Produce", request(PRODUCE, 8, produce_head() + many))
    yield Attack("2^31-1 topics in Fetch", request(FETCH, 4, fetch_head() + many))
    # Since version 9 arrays are "compact": their count plus one, as a variable-length number.
    yield Attack("2^31-2 topics in compact form", request(METADATA, 9, b"\0\xff\xff\xff\xff\x07"))


def header(api_key: int, version: int, client_id_length: int = -1) -> bytes:
    """A request header up to the client id's length; -1 is a null client id."""
    return struct.pack(">hhih", api_key, version, CORRELATION_ID, client_id_length)


def framed(data: bytes) -> bytes:
    """The data after its length as four bytes: a frame of the Kafka protocol."""
    return struct.pack(">i", len(data)) + data


def request(api_key: int, version: int, body: bytes) -> bytes:
    return framed(header(api_key, version) + body)


def produce_head() -> bytes:
    """The first fields of a Produce request: no transactional id, acks=all, timeout 5 s."""
    return struct.pack(">hhi", -1, -1, 5_000)


def fetch_head() -> bytes:
    """The first fields of a Fetch request: replica id -1 (a consumer), no wait, at least 0 bytes,
    at most 1 MiB, isolation level read_uncommitted."""
    return struct.pack(">iiiib", -1, 0, 0, MIB, 0)


def bomb(topic: str, inflated_mib: int) -> bytes:
    """A Produce request with a small batch that decompresses to `inflated_mib` MiB."""
    # Concatenated zstd frames are one valid zstd stream.
    inflating = bytes(cramjam.zstd.compress(bytes(10 * MIB))) * (inflated_mib // 10)
    name = topic.encode()
    partition = struct.pack(">ii", 1, 0)
    records = framed(batch(inflating))
    topics = struct.pack(">ih", 1, len(name)) + name + partition + records
    return request(PRODUCE, 8, produce_head() + topics)


def batch(compressed: bytes) -> bytes:
    """A record batch (format 2) with these compressed records, and a correct checksum."""
    # Attributes, last offset delta, two timestamps, producer id and epoch, sequence, record count.
    checked = struct.pack(">hiqqqhii", ZSTD, 0, 0, 0, -1, -1, -1, 1) + compressed
    # Partition leader epoch, magic, checksum.
    rest = struct.pack(">ibI", 0, 2, crc32c.crc32c(checked)) + checked
    # Base offset and length.
    return struct.pack(">qi", 0, len(rest)) + rest


def exactly(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes; raises `ConnectionError` if the connection ends before."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)
