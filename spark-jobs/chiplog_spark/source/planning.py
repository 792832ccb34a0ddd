"""Asking the cluster what there is, so that ranges can be made of it."""

from collections.abc import Iterable

from chiplog_spark.source.ranges import Held
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import EARLIEST, LATEST, TopicFacts


def held_now(client: Client, topic: TopicFacts, partitions: Iterable[int]) -> dict[int, Held]:
    """Log start and high watermark of each partition, as its leader says. Raises `WireError`."""
    wanted = list(partitions)
    # The starts come first: between the two questions logs may grow, and lose their beginning.
    starts = client.offsets(topic, dict.fromkeys(wanted, EARLIEST))
    ends = client.offsets(topic, dict.fromkeys(wanted, LATEST))
    return {index: Held(starts[index], max(starts[index], ends[index])) for index in wanted}
