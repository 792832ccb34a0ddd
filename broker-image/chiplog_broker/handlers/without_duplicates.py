"""Removes duplicate partitions from a Fetch request.

As in Kafka, whose `FetchRequest.fetchData` collects the partitions of a request in an ordered map:
the first occurrence determines the position, the last one the values.
"""

from collections.abc import Sequence

from chiplog_broker.fetch_sessions.session import TopicKey
from chiplog_wire.protocol.messages import FetchPartition, FetchTopic


def without_duplicates(topics: list[FetchTopic]) -> list[FetchTopic]:
    """Return the topics and their partitions, each once; usually there are no duplicates, and this
    is the given list itself."""
    if not _names_twice(topics):
        return topics
    merged: dict[TopicKey, tuple[FetchTopic, dict[int, FetchPartition]]] = {}
    for topic in topics:
        _, partitions = merged.setdefault(topic.topic_id or topic.name, (topic, {}))
        for partition in topic.partitions:
            partitions[partition.partition] = partition
    return [topic._replace(partitions=list(found.values())) for topic, found in merged.values()]


def _names_twice(topics: Sequence[FetchTopic]) -> bool:
    """Whether a topic, or a partition of a topic, occurs twice."""
    if len(topics) > 1 and len({topic.topic_id or topic.name for topic in topics}) < len(topics):
        return True
    return any(
        len(topic.partitions) > 1
        and len({partition.partition for partition in topic.partitions}) < len(topic.partitions)
        for topic in topics
    )
