"""`KafkaAdmin` by librdkafka's admin client: topics, configuration, offsets."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic as CreatedTopic

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Broker,
    Cluster,
    NewTopic,
    Offsets,
    Partition,
    Topic,
    TopicPartition,
)
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.failures import REMEDIES, TIMED_OUT, not_deleted, refused
from chiplog_cli.librdkafka.reassigning import reassignments
from chiplog_cli.reassignments import Reassignment

DEFAULT = -1
"""Stands in a CreateTopics request for the cluster's num.partitions or
default.replication.factor."""

GRACE_S = 2.0
"""librdkafka itself ends a request in time; a thread that waits for it waits a little longer."""


class LibrdkafkaTopics:
    """Implements `KafkaAdmin` except for groups. Its threads end with the process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._timeout_s = connection.timeout_s
        self._admin = AdminClient(connection.settings())

    # ---- looking ----

    def describe_cluster(self) -> Cluster:
        """The cluster id and all brokers, by id. Raises `BrokerRefused`."""
        future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        found = self._result(future, "the cluster")
        return Cluster(
            cluster_id=found.cluster_id,
            brokers=tuple(
                sorted((broker_of(broker) for broker in found.nodes), key=lambda broker: broker.id)
            ),
        )

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted. Raises `BrokerRefused`."""
        try:
            return sorted(self._admin.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            raise refused(error, "topics") from error

    def describe_topics(self, names: Iterable[str]) -> list[Topic]:
        """The topics with their partitions, in the order of `names`. Raises `BrokerRefused`.

        Reassignments are asked for only if a replica is not in sync: those that are being added are
        in sync just for the moment before the reassignment ends.
        """
        wanted = list(names)
        if not wanted:
            return []
        futures = self._admin.describe_topics(
            TopicCollection(wanted), request_timeout=self._timeout_s
        )
        found = [self._result(futures[name], f"topic '{name}'") for name in wanted]
        topics = list(map(topic_of, found))
        if any(one.is_under_replicated for topic in topics for one in topic.partitions):
            leaders = (one.leader for topic in found for one in topic.partitions)
            others = ((one.host, one.port) for one in leaders if one is not None and one.id >= 0)
            moving = reassignments(self._connection, others)
            topics = [with_reassignments(topic, moving) for topic in topics]
        return topics

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """See `KafkaAdmin.topic_configs`. Keys that have Kafka's defaults are left out."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        futures = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        return {
            resource.name: {
                entry.name: entry.value
                for entry in self._result(future, f"topic '{resource.name}'").values()
                if entry.source != ConfigSource.DEFAULT_CONFIG.value
            }
            for resource, future in futures.items()
        }

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Offsets:
        """See `KafkaAdmin.offsets`."""
        if not wanted:
            return {}
        specs = {Place(*at): _spec(timestamp) for at, timestamp in wanted.items()}
        isolation = (
            IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        )
        answers = self._admin.list_offsets(
            specs, isolation_level=isolation, request_timeout=self._timeout_s
        )
        return {
            TopicPartition(place.topic, place.partition): self._offset(place, future)
            for place, future in answers.items()
        }

    def _offset(self, place: Place, answer: "Future[Any]") -> int | BrokerRefused:
        """The offset of one partition, or its leader's error."""
        try:
            return int(self._result(answer, f"{place.topic}-{place.partition}").offset)
        except BrokerRefused as error:
            return error

    # ---- changing ----

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic and wait until it exists. Raises `BrokerRefused`."""
        new_topic = CreatedTopic(
            topic.name,
            DEFAULT if topic.partitions is None else topic.partitions,
            DEFAULT if topic.replication_factor is None else topic.replication_factor,
            config=dict(topic.config),
        )
        futures = self._admin.create_topics([new_topic], **self._limits())
        self._result(futures[topic.name], f"topic '{topic.name}'")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone. Raises `BrokerRefused`."""
        futures = self._admin.delete_topics([name], **self._limits())
        try:
            self._result(futures[name], f"topic '{name}'")
        except BrokerRefused as error:
            raise not_deleted(error) from error

    def create_partitions(self, topic: str, total: int) -> None:
        """Add partitions, so that the topic has `total`. Raises `BrokerRefused`."""
        futures = self._admin.create_partitions([NewPartitions(topic, total)], **self._limits())
        self._result(futures[topic], f"topic '{topic}'")

    def alter_config(self, topic: str, values: Mapping[str, str], deleted: Iterable[str]) -> None:
        """See `KafkaAdmin.alter_config`. Raises `BrokerRefused`."""
        entries = [
            *(_change(key, value, AlterConfigOpType.SET) for key, value in values.items()),
            *(_change(key, None, AlterConfigOpType.DELETE) for key in deleted),
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        futures = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        for future in futures.values():
            self._result(future, f"topic '{topic}'")

    # ---- waiting ----

    def _limits(self) -> dict[str, float]:
        """The timeouts of a change. The broker answers when the change was made, not before."""
        return {"operation_timeout": self._timeout_s, "request_timeout": self._timeout_s}

    def _result(self, future: "Future[Any]", what: str) -> Any:
        """Wait for the result of a request. `what` is the object that it is about, for errors, like
        "topic 'orders'". Raises `BrokerRefused`."""
        try:
            return future.result(self._timeout_s + GRACE_S)
        except KafkaException as error:
            raise refused(error, what) from error
        except NotInTime as error:
            raise BrokerRefused(
                TIMED_OUT, f"{what}: no answer in time", REMEDIES[TIMED_OUT]
            ) from error


def broker_of(node: Any) -> Broker:
    return Broker(id=node.id, host=node.host, port=node.port, rack=node.rack)


def topic_of(found: Any) -> Topic:
    """The topic in librdkafka's description. There, the leader of a partition without one is None,
    or has a negative id."""
    return Topic(
        name=found.name,
        topic_id=topic_id_text(str(found.topic_id)),
        is_internal=bool(found.is_internal),
        partitions=tuple(
            sorted(
                (
                    Partition(
                        partition=partition.id,
                        leader=None
                        if partition.leader is None or partition.leader.id < 0
                        else partition.leader.id,
                        replicas=tuple(node.id for node in partition.replicas),
                        isr=tuple(node.id for node in partition.isr),
                    )
                    for partition in found.partitions
                ),
                key=lambda partition: partition.partition,
            )
        ),
    )


def with_reassignments(topic: Topic, moving: Mapping[TopicPartition, Reassignment]) -> Topic:
    """The topic with what its partitions' reassignments add and remove. One that ended since the
    topic was described does not count."""

    def of(partition: Partition) -> Partition:
        found = moving.get(TopicPartition(topic.name, partition.partition))
        if found is None or not {*found.adding, *found.removing}.issubset(partition.replicas):
            return partition
        return replace(partition, adding=found.adding, removing=found.removing)

    return replace(topic, partitions=tuple(map(of, topic.partitions)))


def topic_id_text(base64: str) -> str:
    """The topic id as Kafka writes it. librdkafka does not use the URL-safe alphabet."""
    return base64.rstrip("=").replace("+", "-").replace("/", "_")


def _spec(timestamp: int) -> OffsetSpec:
    """librdkafka's form of a timestamp, which may be `LATEST`, `EARLIEST` or `MAX_TIMESTAMP`."""
    named: Mapping[int, Callable[[], OffsetSpec]] = {
        LATEST: OffsetSpec.latest,
        EARLIEST: OffsetSpec.earliest,
        MAX_TIMESTAMP: OffsetSpec.max_timestamp,
    }
    spec: OffsetSpec = OffsetSpec.for_timestamp(timestamp)
    return named[timestamp]() if timestamp in named else spec


def _change(key: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    """The change of one key of a topic's configuration. The value is None for a deletion."""
    return ConfigEntry(key, value, incremental_operation=operation)
