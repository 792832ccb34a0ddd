"""The request for reassignments in progress and its answer, as bytes (KIP-455).

Metadata names the replicas that a reassignment adds among all others, so nobody sees which of them
are missing and which are only on their way. Kafka's tool asks for the reassignments, too
(`TopicCommand` with `listPartitionReassignments`); librdkafka has no such request.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from chiplog_cli.facts import TopicPartition

LIST_PARTITION_REASSIGNMENTS = 46
"""Number of the API. Its only version is 0."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
NO_ERROR = 0
MAY_NOT_ASK = frozenset({31, 35})
"""CLUSTER_AUTHORIZATION_FAILED and UNSUPPORTED_VERSION: then there is nothing to show, as in
Kafka's tool."""

T = TypeVar("T")


class Reassignment(NamedTuple):
    """The broker ids that a partition's reassignment adds and removes."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Refused(Exception):  # noqa: N818 - named for what it says
    """The broker answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        """`code` is Kafka's number of the error; `message` may be empty."""
        super().__init__(code, message)
        self.code, self.message = code, message


def list_request(client_id: str, timeout_s: float) -> bytes:
    """The request for all reassignments, with its length before it."""
    client = client_id.encode()
    header = struct.pack(">hhih", LIST_PARTITION_REASSIGNMENTS, 0, 0, len(client)) + client
    # No topics, which means all; then no tagged fields, as at the header's end.
    body = struct.pack(">i", round(timeout_s * 1000)) + b"\x00\x00"
    request = header + b"\x00" + body
    return struct.pack(">i", len(request)) + request


def read_answer(answer: bytes) -> Mapping[TopicPartition, Reassignment]:
    """The reassignments in the answer, without its length. Raises `Refused`, and `ValueError` if
    this is no such answer."""
    reader = _Reader(answer)
    reader.number(4)  # the correlation id
    reader.skip_tags()
    reader.number(4)  # the throttle time
    code, message = reader.number(2), reader.text()
    if code in MAY_NOT_ASK:
        return {}
    if code != NO_ERROR:
        raise Refused(code, message or "")
    return {
        place: reassignment for topic in reader.list_of(_topic) for place, reassignment in topic
    }


def _topic(reader: "_Reader") -> list[tuple[TopicPartition, Reassignment]]:
    """The reassignments of a topic."""
    name = reader.text() or ""
    partitions = reader.list_of(_partition)
    reader.skip_tags()
    return [(TopicPartition(name, partition), found) for partition, found in partitions]


def _partition(reader: "_Reader") -> tuple[int, Reassignment]:
    """The reassignment of a partition, with its number."""
    partition = reader.number(4)
    reader.list_of(_broker)  # all replicas, which Metadata has, too
    adding, removing = reader.list_of(_broker), reader.list_of(_broker)
    reader.skip_tags()
    return partition, Reassignment(tuple(adding), tuple(removing))


def _broker(reader: "_Reader") -> int:
    return reader.number(4)


@dataclass(slots=True)
class _Reader:
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

    def list_of(self, read: Callable[["_Reader"], T]) -> list[T]:
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
