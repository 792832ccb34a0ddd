"""How many topics and partitions a cluster may have, because clients can create them and etcd
stores them.

A topic has two objects of the Kubernetes API, and each of its partitions takes about 150 bytes in
one of them, which is written at every change of a leader. etcd stores 2 GiB by default, for
everything in the Kubernetes cluster. A cluster above its limits keeps all its topics; only new ones
are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_core.config.broker_keys import MAX_PARTITIONS, MAX_TOPICS
from chiplog_core.config.effective import broker_value
from chiplog_core.config.key import ConfigKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many topics and partitions a cluster has, and how many it may have. Internal topics do
    not count."""

    topics: int = 0
    partitions: int = 0
    max_topics: int
    max_partitions: int

    @staticmethod
    def of(config: Mapping[str, str], *, topics: int = 0, partitions: int = 0) -> "Capacity":
        """The capacity of a cluster with this broker configuration, which sets the limits."""
        # Both keys have a default, so `or 0` is only for the type checker.
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

    def why_exceeded(self, *, topics: int, partitions: int) -> str:
        """Why this many more cannot be created, and what to do about it; empty if they can."""
        if topics and self.topics + topics > self.max_topics:
            return _full("topics", self.topics, topics, MAX_TOPICS, self.max_topics)
        if self.partitions + partitions > self.max_partitions:
            return _full(
                "partitions", self.partitions, partitions, MAX_PARTITIONS, self.max_partitions
            )
        return ""


def _full(things: str, current: int, added: int, key: ConfigKey[int], limit: int) -> str:
    """The message for a number of topics or partitions that would exceed the limit set by `key`."""
    return (
        f"the cluster has {current} {things}, and {added} more would exceed {key.name}, which is "
        f"{limit}: delete topics, or raise {key.name} in the brokers' configuration"
    )
