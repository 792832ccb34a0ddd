"""The request for reassignments in progress and its answer, as bytes (KIP-455).

Metadata names the replicas that a reassignment adds among all others, so nobody sees which of them
are missing and which are only on their way. Kafka's tool asks for the reassignments, too
(`TopicCommand` with `listPartitionReassignments`); librdkafka has no such request.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from chiplog_cli.facts import TopicPartition
from chiplog_cli.flexible import Reader, body_of, request

LIST_PARTITION_REASSIGNMENTS = 46
"""Number of the API. Its only version is 0."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
NO_ERROR = 0
MAY_NOT_ASK = frozenset({31, 35})
"""CLUSTER_AUTHORIZATION_FAILED and UNSUPPORTED_VERSION: then there is nothing to show, as in
Kafka's tool."""


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
    # No topics, which means all; then no tagged fields.
    body = struct.pack(">i", round(timeout_s * 1000)) + b"\x00\x00"
    return request(LIST_PARTITION_REASSIGNMENTS, 0, client_id, body)


def read_answer(answer: bytes) -> Mapping[TopicPartition, Reassignment]:
    """The reassignments in the answer, without its length. Raises `Refused`, and `ValueError` if
    this is no such answer."""
    reader = body_of(answer)
    reader.number(4)  # the throttle time
    code, message = reader.number(2), reader.text()
    if code in MAY_NOT_ASK:
        return {}
    if code != NO_ERROR:
        raise Refused(code, message or "")
    return {
        place: reassignment for topic in reader.list_of(_topic) for place, reassignment in topic
    }


def _topic(reader: Reader) -> list[tuple[TopicPartition, Reassignment]]:
    """The reassignments of a topic."""
    name = reader.text() or ""
    partitions = reader.list_of(_partition)
    reader.skip_tags()
    return [(TopicPartition(name, partition), found) for partition, found in partitions]


def _partition(reader: Reader) -> tuple[int, Reassignment]:
    """The reassignment of a partition, with its number."""
    partition = reader.number(4)
    reader.list_of(_broker)  # all replicas, which Metadata has, too
    adding, removing = reader.list_of(_broker), reader.list_of(_broker)
    reader.skip_tags()
    return partition, Reassignment(tuple(adding), tuple(removing))


def _broker(reader: Reader) -> int:
    return reader.number(4)
