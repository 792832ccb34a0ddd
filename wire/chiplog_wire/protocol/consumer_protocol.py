"""Kafka's embedded consumer protocol: the bytes of subscriptions and assignments.

Consumers exchange these bytes through the coordinator, which stores and forwards them unread. We
parse them only to find out what a group's members consume: for expiry, status and lag. Clients
write them, so bytes that follow no schema are not an error here: the functions return None.

Schemas: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`, versions 0 to 3, of Apache
Kafka 4.3.1. A later version is read as version 3, as Kafka's clients do: new fields come last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from chiplog_wire.protocol.reader import UNREADABLE, Reader

T = TypeVar("T")

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members use this protocol."""

NO_GENERATION: Final = -1


class AssignedPartition(NamedTuple):
    """A partition that a consumer owns or is assigned."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics that a consumer subscribes to, and the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None
    """Opaque data of the assignor."""
    owned_partitions: tuple[AssignedPartition, ...] = ()
    generation_id: int = NO_GENERATION
    """The generation in which it owned them; -1 if the subscription does not contain it."""
    rack_id: str | None = None


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of a subscription, which come first in every version; None if they cannot be
    read.

    This does not call `parse_subscription`: some clients write a version and leave out its later
    fields, and Kafka's coordinator does not read these fields either.
    """
    return _parse(subscription, lambda reader, _: frozenset(_topics(reader)))


def parse_subscription(subscription: bytes) -> Subscription | None:
    """A member's subscription; None if it cannot be read."""
    return _parse(subscription, _read_subscription)


def parse_assignment(assignment: bytes) -> tuple[AssignedPartition, ...] | None:
    """The partitions assigned to a member; None if they cannot be read.

    A member that the group's leader did not assign anything gets empty bytes: no partitions.
    """
    if not assignment:
        return ()
    return _parse(assignment, lambda reader, _: _partitions(reader))


def _parse(message: bytes, read: Callable[[Reader, int], T]) -> T | None:
    """Read the version of a message, then the rest by `read`; None if the message is invalid."""
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


def _partitions(reader: Reader) -> tuple[AssignedPartition, ...]:
    """Partitions, which are encoded by topic."""
    partitions: list[AssignedPartition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        partitions += [AssignedPartition(topic, reader.int32()) for _ in range(reader.count())]
    return tuple(partitions)
