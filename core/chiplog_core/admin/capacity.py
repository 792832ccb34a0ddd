"""How many topics and partitions a cluster takes: what clients can make is kept in etcd for ever.

A topic is two objects of the Kubernetes API, and each partition takes about 150 bytes of one of
them, written again at every change of a leader. etcd takes 2 GiB in all by default, of everybody.
A cluster that has more already keeps all of it; only more is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_core.config.broker_keys import MAX_PARTITIONS, MAX_TOPICS
from chiplog_core.config.effective import broker_value
from chiplog_core.config.key import ConfigKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a cluster has, and may have. Topics of the cluster itself do not count."""

    topics: int = 0
    partitions: int = 0
    max_topics: int
    max_partitions: int

    @staticmethod
    def of(config: Mapping[str, str], *, topics: int = 0, partitions: int = 0) -> "Capacity":
        """The capacity of a cluster with this broker configuration, which sets the limits."""
        return Capacity(
            topics=topics,
            partitions=partitions,
            max_topics=broker_value(config, MAX_TOPICS) or 0,
            max_partitions=broker_value(config, MAX_PARTITIONS) or 0,
        )

    def with_more(self, *, topics: int, partitions: int) -> "Capacity":
        """The capacity after this many more topics and partitions were created."""
        return Capacity(
            topics=self.topics + topics,
            partitions=self.partitions + partitions,
            max_topics=self.max_topics,
            max_partitions=self.max_partitions,
        )

    def why_no_room(self, *, topics: int, partitions: int) -> str:
        """Why this many more cannot be created, and what to do about it; empty if they can."""
        if topics and self.topics + topics > self.max_topics:
            return _full("topics", self.topics, topics, MAX_TOPICS, self.max_topics)
        if self.partitions + partitions > self.max_partitions:
            return _full(
                "partitions", self.partitions, partitions, MAX_PARTITIONS, self.max_partitions
            )
        return ""


def _full(what: str, have: int, more: int, key: ConfigKey[int], most: int) -> str:
    """The message for a count that would exceed its limit `most`, which `key` sets."""
    return (
        f"the cluster has {have} {what}, and {more} more would exceed {key.name}, which is "
        f"{most}: delete topics, or raise it in the brokers' configuration"
    )
