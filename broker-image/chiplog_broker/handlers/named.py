"""How many topics and partitions a request about transactions names."""

from collections.abc import Sequence
from typing import Any

from chiplog_wire.protocol.errors import ProtocolViolation


def check_count(request: str, elements: Sequence[Any], partitions: str, limit: int) -> None:
    """Raises `ProtocolViolation` if the elements of a request name more than `limit` elements,
    topics and partitions together, which are not counted one by one.

    `request` is its name for the message, and `partitions` the field of a topic with its
    partitions.
    """
    named = len(elements)
    for element in elements:
        named += len(element.topics)
        if named > limit:
            break
        named += sum(len(getattr(topic, partitions)) for topic in element.topics)
    if named > limit:
        raise ProtocolViolation(f"{request} names more than {limit} partitions")
