"""Reads the offsets of partitions for planning."""

from collections.abc import Iterable

from chiplog_spark.source.ranges import Held
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import EARLIEST, LATEST, Isolation, TopicFacts


def held_now(
    client: Client, topic: TopicFacts, partitions: Iterable[int], isolation: Isolation
) -> dict[int, Held]:
    """The log start offset of each partition, and the end of what may be read, from its leader.
    Raises `WireError`."""
    indexes = list(partitions)
    # Start offsets are requested first: logs may grow, and be truncated at their start, in between.
    starts = client.offsets(topic, dict.fromkeys(indexes, EARLIEST))
    ends = client.offsets(topic, dict.fromkeys(indexes, LATEST), isolation=isolation)
    return {index: Held(starts[index], max(starts[index], ends[index])) for index in indexes}
