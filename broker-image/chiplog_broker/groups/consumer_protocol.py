"""What consumers tell each other through the coordinator: subscriptions and assignments.

To the coordinator these are bytes. They are looked into only to say what a group's members consume:
for expiry, for status, for lag. Clients write them, so bytes that follow no schema are no error
here: nothing is known of them then.

Schemas: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`, versions 0 to 3, of Apache
Kafka 4.3.1. A later version is read as version 3, as Kafka's clients do: new fields come last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from chiplog_broker.groups.fields import UNREADABLE
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.protocol.reader import Reader

T = TypeVar("T")

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members speak this."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What one consumer wants, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None
    """The assignor's own."""
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    """In which generation it owned them; -1 where it does not say."""
    rack_id: str | None = None


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics alone, which stand first in every version; None if they cannot be read.

    Not by way of `parse_subscription`: there are clients that write a version whose later fields
    they leave out, and Kafka's coordinator does not look that far either.
    """
    return _parse(subscription, lambda reader, _: frozenset(_topics(reader)))


def parse_subscription(subscription: bytes) -> Subscription | None:
    """None if it cannot be read."""
    return _parse(subscription, _read_subscription)


def parse_assignment(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions assigned to a member; None if they cannot be read.

    No bytes at all are what a member gets that the leader did not think of: no partitions.
    """
    if not assignment:
        return ()
    return _parse(assignment, lambda reader, _: _partitions(reader))


def _parse(message: bytes, read: Callable[[Reader, int], T]) -> T | None:
    reader = Reader(memoryview(message), compact=False)
    try:
        version = reader.int16()
        if version < 0:
            return None
        return read(reader, version)
    except UNREADABLE:
        return None


def _read_subscription(reader: Reader, version: int) -> Subscription:
    topics = _topics(reader)
    user_data = reader.nullable_view()
    return Subscription(
        topics=topics,
        user_data=None if user_data is None else bytes(user_data),
        owned_partitions=_partitions(reader) if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else NO_GENERATION,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def _topics(reader: Reader) -> tuple[str, ...]:
    return tuple([reader.string() for _ in range(reader.count())])


def _partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    partitions: list[TopicPartition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        partitions += [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
    return tuple(partitions)
