"""Topic: the desired state of one topic, and its actual state as the operator reports it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.durations import Duration
from chiplog_core.ids import MAX_INT64, PartitionIndex, TopicId
from chiplog_core.limits import (
    MAX_CONDITIONS,
    MAX_MESSAGE_LENGTH,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_REPLICAS,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.conditions import Condition
from chiplog_core.model.references import ClusterRef, ConfigScalar, ReplicaList, TopicName
from chiplog_core.model.resource import UsersResource
from chiplog_core.naming import api


class GrowthStrategy(StrEnum):
    """How a topic gets more (or fewer) partitions."""

    APPEND = "Append"
    REPARTITION = "Repartition"


class Partitioner(StrEnum):
    """The hash by which producers choose a key's partition."""

    AUTO = "auto"
    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    FNV1A = "fnv1a"


class DeletionPolicy(StrEnum):
    """What becomes of the data when a Topic object is deleted."""

    DELETE = "Delete"
    RETAIN = "Retain"
    TRASH = "Trash"


class ReplicasChangeState(StrEnum):
    """How far a change of the replication factor has come."""

    PENDING = "pending"
    ONGOING = "ongoing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How the number of partitions is changed."""

    strategy: Annotated[
        GrowthStrategy,
        "Append adds empty partitions: quick, but most keys then map to other partitions, so a "
        "key's records keep their order before the change and after it, but not across it. "
        "Repartition copies the records into a new set of partitions with Spark, keeps the order "
        "per key and can also shrink a topic.",
    ] = GrowthStrategy.APPEND
    partitioner: Annotated[
        Partitioner | None,
        "Only with Repartition: the hash the producers use. murmur2 is that of the Java client "
        "and kafka-python, crc32 librdkafka's default, fnv1a sarama's; auto finds out which one "
        "fits the existing records.",
    ] = None
    max_replay: Annotated[
        int | None,
        "Only with Repartition: how many records a consumer group may have to read a second "
        "time because of the change. The change waits while it would be more.",
        Range(0, MAX_INT64),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The brokers that hold one partition."""

    partition: Annotated[PartitionIndex, "Number of the partition in its topic, counted from 0."]
    replicas: Annotated[
        ReplicaList,
        "Ids of the brokers that hold a replica of the partition; the first one is its "
        "preferred leader.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """Desired state of the topic."""

    cluster_ref: Annotated[
        ClusterRef, "The BrokerCluster the topic lives on. It cannot be changed later."
    ]
    topic_name: Annotated[
        TopicName | None,
        "Name of the topic for Kafka clients; default: metadata.name. Needed for names "
        "that Kubernetes does not allow, like order_placed. It cannot be changed later.",
    ] = None
    partitions: Annotated[
        int | None,
        "Number of partitions. It limits how many consumers of one group can share the work. It "
        "can grow at any time (see growth.strategy for the effect on keys); it can shrink only "
        "with growth.strategy Repartition. Default: the cluster's num.partitions when the topic "
        "is created; later changes of that setting do not affect the topic.",
        Range(1, MAX_PARTITIONS_PER_TOPIC),
    ] = None
    replicas: Annotated[
        int | None,
        "Number of replicas of each partition, at most the number of brokers. Default: the "
        "cluster's default.replication.factor.",
        Range(1, MAX_REPLICAS),
    ] = None
    config: Annotated[
        Mapping[str, ConfigScalar],
        "Configuration under Kafka's own names, like retention.ms. Numbers, booleans and strings "
        "are accepted. A key that is not set follows the cluster's configuration. An unknown key "
        "makes the object not Ready, and the condition names the key.",
        TOPIC_KEYS,
    ] = field(default_factory=dict)
    growth: Annotated[Growth | None, "How the number of partitions is changed."] = None
    deletion_policy: Annotated[
        DeletionPolicy,
        "What happens to the records when this object is deleted. Delete: they are deleted "
        "immediately. Retain: they are kept, and a Topic that is created later with the same name "
        "takes them over. Trash: they are kept for trashTTL and can be restored.",
    ] = DeletionPolicy.DELETE
    trash_ttl: Annotated[
        Duration | None,
        "Only with deletionPolicy Trash: how long a deleted topic can be restored, like 7d.",
    ] = None
    assignments: Annotated[
        tuple[Assignment, ...],
        "Manual placement: the brokers of the partitions that are named. New partitions are "
        "created there, and a change moves the replicas of existing ones there. Partitions that "
        "are not named are placed by the operator. Without spec.replicas, the number of brokers "
        "of an entry is the number of replicas of every partition.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ] = ()
    initial_assignments: Annotated[
        tuple[Assignment, ...],
        "The brokers on which the named partitions are created. Unlike assignments, it does not "
        "keep them there: it has no effect on partitions that exist. Set by Kafka clients that "
        "create partitions with a replica assignment.",
        Items(MAX_PARTITIONS_PER_TOPIC, key=("partition",)),
    ] = ()

    @property
    def asked_replicas(self) -> int | None:
        """The number of replicas of each partition that the spec asks for, by its number or by its
        assignments; None if by neither."""
        if self.replicas is None and self.assignments:
            return len(self.assignments[0].replicas)
        return self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasChange:
    """A change of the replication factor that is not complete."""

    target_replicas: Annotated[
        int,
        "Number of replicas that each partition will have after the change.",
        Range(1, MAX_REPLICAS),
    ]
    state: Annotated[
        ReplicasChangeState,
        "State of the change. pending: not started. ongoing: new replicas are catching up.",
    ]
    message: Annotated[
        str, "Progress of the change of replicas, or why it waits.", Length(MAX_MESSAGE_LENGTH)
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """Actual state of the topic, as of the last reconciliation."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready: the topic matches its spec. Warning: something that you should know.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    topic_name: Annotated[TopicName | None, "Name of the topic for Kafka clients."] = None
    topic_id: Annotated[
        TopicId | None,
        "Kafka's id of the topic. A topic that is deleted and created again under its name has "
        "another id.",
    ] = None
    partitions: Annotated[
        int | None, "Current number of partitions of the topic.", Range(0, MAX_PARTITIONS_PER_TOPIC)
    ] = None
    replicas: Annotated[
        int | None, "Current number of replicas of each partition.", Range(0, MAX_REPLICAS)
    ] = None
    replicas_change: Annotated[
        ReplicasChange | None,
        "Progress while the number of replicas is being changed; not set otherwise.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(UsersResource):
    """A topic of a BrokerCluster: its partitions, replicas and configuration.

    Applying this object has the same effect as `kafka-topics.sh --create`.
    """

    KIND = api.TOPIC

    spec: TopicSpec
    status: TopicStatus = field(default_factory=TopicStatus)

    @property
    def topic_name(self) -> str:
        """The topic's name for Kafka clients."""
        return self.spec.topic_name or self.metadata.name
