"""Subscriptions and assignments of consumers, encoded and computed as by Java's range assignor."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from chiplog_wire.protocol.consumer_protocol import parse_assignment

VERSION: Final = 0
Place = tuple[str, int]
"""A partition: its topic's name and its number."""


def subscription(topics: Sequence[str]) -> bytes:
    """These topics encoded as a `ConsumerProtocolSubscription` of version 0."""
    return b"".join(
        (struct.pack(">hi", VERSION, len(topics)), *map(_text, topics), struct.pack(">i", -1))
    )


def assignment(places: Iterable[Place]) -> bytes:
    """These partitions encoded as a `ConsumerProtocolAssignment` of version 0."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    of_topics = [
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    ]
    return b"".join((struct.pack(">hi", VERSION, len(topics)), *of_topics, struct.pack(">i", -1)))


def assigned(message: bytes) -> frozenset[Place]:
    """The partitions in an encoded assignment; none for an empty message."""
    return frozenset((one.topic, one.partition) for one in parse_assignment(message) or ())


def in_ranges(members: Sequence[str], places: Iterable[Place]) -> Mapping[str, list[Place]]:
    """Member id -> its partitions, as the range assignor distributes them.

    Each member gets a contiguous range of each topic's partitions, in the order of member ids.
    """
    shares: dict[str, list[Place]] = {one: [] for one in sorted(members)}
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    for topic, numbers in topics.items():
        each, remainder = divmod(len(numbers), len(shares))
        begin = 0
        for index, share in enumerate(shares.values()):
            end = begin + each + (index < remainder)  # the first members get one partition more
            share += [(topic, number) for number in numbers[begin:end]]
            begin = end
    return shares


def _text(text: str) -> bytes:
    """A string of Kafka's protocol: its length in two bytes, then UTF-8."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data
