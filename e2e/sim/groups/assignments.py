"""What consumers tell each other through the coordinator, as Java's range assignor does it."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from chiplog_wire.protocol.consumer_protocol import parse_assignment

VERSION: Final = 0
Place = tuple[str, int]
"""Topic and number."""


def subscription(topics: Sequence[str]) -> bytes:
    """`ConsumerProtocolSubscription`, version 0."""
    return b"".join(
        (struct.pack(">hi", VERSION, len(topics)), *map(_text, topics), struct.pack(">i", -1))
    )


def assignment(places: Iterable[Place]) -> bytes:
    """`ConsumerProtocolAssignment`, version 0."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    of_topics = [
        _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    ]
    return b"".join((struct.pack(">hi", VERSION, len(topics)), *of_topics, struct.pack(">i", -1)))


def assigned(message: bytes) -> frozenset[Place]:
    """What an assignment says."""
    return frozenset((one.topic, one.partition) for one in parse_assignment(message) or ())


def in_ranges(members: Sequence[str], places: Iterable[Place]) -> Mapping[str, list[Place]]:
    """The range assignor: of each topic a range of partitions to each member, in the order of
    member ids."""
    shares: dict[str, list[Place]] = {one: [] for one in sorted(members)}
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    for topic, numbers in topics.items():
        each, more = divmod(len(numbers), len(shares))
        begin = 0
        for index, share in enumerate(shares.values()):
            end = begin + each + (index < more)
            share += [(topic, number) for number in numbers[begin:end]]
            begin = end
    return shares


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
