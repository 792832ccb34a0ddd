"""Requests and answers of flexible versions (KIP-482), as bytes.

They are for requests that librdkafka does not have.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

NO_TAGS = b"\x00"

T = TypeVar("T")


def request(key: int, version: int, client_id: str, body: bytes) -> bytes:
    """A request with its length before it. `body` ends with its tagged fields."""
    client = client_id.encode()
    header = struct.pack(">hhih", key, version, 0, len(client)) + client + NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def text(value: str | None) -> bytes:
    """Text with its length plus 1 before it; 0 for None."""
    if value is None:
        return varint(0)
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def list_of(elements: Iterable[bytes]) -> bytes:
    """A list of encoded elements, with its length plus 1 before it."""
    found = list(elements)
    return varint(len(found) + 1) + b"".join(found)


def body_of(answer: bytes) -> "Reader":
    """Reads an answer, without its length, from behind its header on. Raises `ValueError`."""
    reader = Reader(answer)
    reader.number(4)  # the correlation id
    reader.skip_tags()
    return reader


@dataclass(slots=True)
class Reader:
    """Reads Kafka's types of flexible versions (KIP-482). Raises `ValueError` where bytes lack."""

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("the answer of the broker ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        """An unsigned number in groups of seven bits, the lowest first."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("the answer of the broker has a number that is too long")

    def text(self) -> str | None:
        """Text with its length plus 1 before it; None for a length of 0."""
        size = self.varint()
        return self.take(size - 1).decode() if size else None

    def list_of(self, read: Callable[["Reader"], T]) -> list[T]:
        """A list with its length plus 1 before it; 0 counts as an empty one."""
        count = self.varint() - 1
        if count > len(self.data) - self.at:
            raise ValueError("the answer of the broker has a list that is too long")
        return [read(self) for _ in range(count)]

    def skip_tags(self) -> None:
        """Pass over tagged fields: newer brokers may add some."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())
