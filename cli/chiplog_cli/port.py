"""The port to the brokers: what the commands ask of Kafka's admin protocol.

Every method waits, for at most the time of `--request-timeout`, and raises `BrokerRefused`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from chiplog_cli.facts import (
    Cluster,
    Group,
    GroupListing,
    NewTopic,
    Offsets,
    Topic,
    TopicPartition,
)
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Producers,
    Transaction,
    TransactionFilter,
    TransactionListing,
)


class KafkaAdmin(Protocol):
    """The cluster, as Kafka's protocol shows and changes it."""

    def describe_cluster(self) -> Cluster: ...

    def topic_names(self) -> list[str]:
        """All topics, including internal ones, in alphabetical order."""

    def describe_topics(self, names: Iterable[str]) -> list[Topic]:
        """The topics in this order. Raises `BrokerRefused` if one does not exist."""

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The configuration of each topic, as far as it differs from Kafka's defaults."""

    def create_topic(self, topic: NewTopic) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def create_partitions(self, topic: str, total: int) -> None:
        """Give the topic `total` partitions."""

    def alter_config(self, topic: str, values: Mapping[str, str], deleted: Iterable[str]) -> None:
        """Set some keys of a topic, and delete others, so that the broker's configuration
        applies again."""

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Offsets:
        """The offset of the first record at or after each timestamp in milliseconds; or for the
        timestamps LATEST, EARLIEST and MAX_TIMESTAMP. With `read_committed` only offsets below the
        last stable one count, and LATEST is that one."""

    def list_groups(self) -> list[GroupListing]:
        """All groups, in alphabetical order."""

    def describe_group(self, group_id: str) -> Group: ...

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Every offset that the group has committed."""

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group, which must have no members. If one is refused, an error is
        raised, and others may be committed."""

    def delete_group(self, group_id: str) -> None: ...


class KafkaTransactions(Protocol):
    """Transactions and their producers. Every method takes broker ids of the cluster."""

    def list_all(self, wanted: TransactionFilter) -> list[TransactionListing]:
        """The transactional ids of all coordinators that pass the filter, sorted."""

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""

    def describe(self, coordinator: int, transactional_ids: Iterable[str]) -> list[Transaction]:
        """The states of transactional ids that this broker coordinates. Raises `BrokerRefused` if
        one does not exist."""

    def producers(self, leader: int, places: Iterable[TopicPartition]) -> Producers:
        """The producers of partitions that this broker leads."""

    def abort(self, leader: int, at: TopicPartition, producer: ActiveProducer) -> None:
        """End the producer's open transaction in a partition that this broker leads, without its
        coordinator."""
