"""Reads log start offsets and high watermarks for planning."""

from collections.abc import Iterable

from chiplog_spark.source.ranges import Held
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import EARLIEST, LATEST, TopicFacts


def held_now(client: Client, topic: TopicFacts, partitions: Iterable[int]) -> dict[int, Held]:
    """Log start offset and high watermark of each partition from its leader. Raises `WireError`."""
    indexes = list(partitions)
    # Start offsets are requested first: logs may grow, and be truncated at their start, in between.
    starts = client.offsets(topic, dict.fromkeys(indexes, EARLIEST))
    ends = client.offsets(topic, dict.fromkeys(indexes, LATEST))
    return {index: Held(starts[index], max(starts[index], ends[index])) for index in indexes}
