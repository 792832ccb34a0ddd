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


class KafkaAdmin(Protocol):
    """The cluster, as Kafka's protocol shows and changes it."""

    def describe_cluster(self) -> Cluster: ...

    def topic_names(self) -> list[str]:
        """All topics, internal ones too, in alphabetical order."""

    def describe_topics(self, names: Iterable[str]) -> list[Topic]:
        """Each of them, in this order; a topic that does not exist is refused."""

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Of each topic what is not Kafka's default."""

    def create_topic(self, topic: NewTopic) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def create_partitions(self, topic: str, total: int) -> None:
        """Let the topic have `total` partitions."""

    def alter_config(self, topic: str, values: Mapping[str, str], deleted: Iterable[str]) -> None:
        """Set some keys of a topic, and let others follow the broker's configuration again."""

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The offset at each timestamp (milliseconds, or LATEST, EARLIEST, MAX_TIMESTAMP)."""

    def list_groups(self) -> list[GroupListing]:
        """All groups, in alphabetical order."""

    def describe_group(self, group_id: str) -> Group: ...

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Every offset the group has committed."""

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group without members, all or an error."""

    def delete_group(self, group_id: str) -> None: ...
