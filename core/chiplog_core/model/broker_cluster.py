"""BrokerCluster: what a user wants of a cluster, and what the operator tells them about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from chiplog_core.config.broker_keys import BROKER_KEYS
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import MAX_INT32, MAX_INT64, BrokerId, TopicId
from chiplog_core.limits import (
    MAX_BROKERS,
    MAX_CONDITIONS,
    MAX_GROUP_ID_LENGTH,
    MAX_LISTENERS,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_REPLICAS,
)
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.conditions import Condition
from chiplog_core.model.listener import Listener, ListenerStatus
from chiplog_core.model.network_policy import NetworkPolicySettings
from chiplog_core.model.pod import Image, PodTemplate, PullPolicy, Resources
from chiplog_core.model.references import ConfigScalar, Namespace
from chiplog_core.model.resource import UsersResource
from chiplog_core.model.roll_policy import RollPolicy
from chiplog_core.model.spark import SparkSettings
from chiplog_core.model.storage import Storage
from chiplog_core.model.topic_policies import TopicPolicies
from chiplog_core.naming import api
from chiplog_core.quantities import Quantity

ALL_NAMESPACES = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Spreads replicas over zones or racks."""

    topology_key: Annotated[
        str,
        "Label of the nodes that names the rack, like topology.kubernetes.io/zone. Replicas of "
        "a partition are put into as many racks as there are.",
        Length(316, minimum=1),
        Pattern(
            r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
            "the key of a label, like topology.kubernetes.io/zone",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPrefix:
    """The groups of another namespace."""

    namespace: Annotated[Namespace, "The namespace of the ConsumerGroup objects."]
    prefix: Annotated[
        str,
        "What the ids of their groups begin with, like payments.",
        Length(MAX_GROUP_ID_LENGTH, minimum=1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What the operator does about consumer groups."""

    discover: Annotated[
        bool,
        "Make a ConsumerGroup object for every group that appears, so that kubectl shows it.",
    ] = False
    namespace_prefixes: Annotated[
        tuple[GroupPrefix, ...],
        "Which groups ConsumerGroups of other namespaces may reset and set offsetRetention of: "
        "those whose id begins so; of a namespace that is not named here, with its name and a "
        "dot, like team-a.billing. Any group can be looked at.",
        Items(200, key=("namespace",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """What brokers tell Prometheus."""

    partitions: Annotated[
        bool,
        "Name partitions and not only topics: offsets, leader, replicas and size of each. That is "
        "about ten series for every partition. A change takes effect without a restart.",
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Brokers that are being worked on."""

    brokers: Annotated[
        tuple[BrokerId, ...],
        "Ids of brokers that should lead nothing and get no new replicas for the time being. "
        "What they hold stays where it is.",
        Items(MAX_BROKERS, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClusterSpec:
    """What the cluster should be."""

    replicas: Annotated[
        int,
        "Number of brokers. More are added at once; fewer means that the brokers with the "
        "highest ids are emptied first and removed when everything they held is elsewhere.",
        Range(1, MAX_BROKERS),
    ]
    storage: Annotated[Storage, "The volume each broker keeps its data on."]
    listeners: Annotated[
        tuple[Listener, ...],
        "Where clients connect. Where not set: one listener of type internal on port 9092.",
        Items(MAX_LISTENERS, key=("name",)),
    ] = ()
    network_policy: Annotated[
        NetworkPolicySettings | None,
        "The NetworkPolicy that the operator makes for the brokers. Where not set, it makes one.",
    ] = None
    rack: Annotated[Rack | None, "Spreads replicas over zones or racks."] = None
    durability: Annotated[
        Durability,
        "What an acknowledged record has survived, for topics that do not set "
        "chiplog.durability. Fsync: it is on disk on the leader and on every follower that "
        "counts. PageCache: it is in memory there, as Kafka does by default.",
    ] = Durability.FSYNC
    config: Annotated[
        Mapping[str, ConfigScalar],
        "Broker configuration under Kafka's own names, like log.retention.hours. Numbers, "
        "booleans and texts are accepted. A key that does not exist is refused by the Ready "
        "condition, which names it.",
        BROKER_KEYS,
    ] = field(default_factory=dict)
    image: Annotated[
        Image | None, "Container image of the brokers; where not set, the operator's choice."
    ] = None
    image_pull_policy: Annotated[
        PullPolicy, "When nodes pull the image: Always, IfNotPresent or Never."
    ] = PullPolicy.IF_NOT_PRESENT
    resources: Annotated[Resources | None, "CPU and memory of each broker."] = None
    template: Annotated[
        PodTemplate | None,
        "Settings of the brokers' pods. Only what is listed here can be set: everything else "
        "would make who may write a BrokerCluster as powerful as its pods.",
    ] = None
    termination_grace_period_seconds: Annotated[
        int,
        "How long a broker has to hand over its leaderships before Kubernetes kills it.",
        Range(1, 3_600),
    ] = 60
    roll_policy: Annotated[
        RollPolicy | None,
        "When and how brokers are restarted. Where not set: at any time, one after the other, "
        "each when all replicas are in sync again.",
    ] = None
    maintenance: Annotated[Maintenance | None, "Brokers that are being worked on."] = None
    hibernate: Annotated[
        bool,
        "Stop all brokers and keep their data. The cluster goes on where it was when this is "
        "set back to false.",
    ] = False
    allowed_topic_namespaces: Annotated[
        tuple[
            Annotated[
                str,
                Length(63, minimum=1),
                Pattern(
                    r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?", "the name of a namespace, or * for all"
                ),
            ],
            ...,
        ],
        "Other namespaces whose Topics and ConsumerGroups may name this cluster; * for all. The "
        "cluster's own is always allowed.",
        Items(200, unique=True),
    ] = ()
    topic_policies: Annotated[
        TopicPolicies | None,
        "Rules that every topic must keep, whether it is made by kubectl or by a Kafka client.",
    ] = None
    consumer_groups: Annotated[
        GroupSettings | None, "What the operator does about consumer groups."
    ] = None
    metrics: Annotated[MetricsSettings | None, "What brokers tell Prometheus."] = None
    spark: Annotated[
        SparkSettings | None, "How jobs that verify, rebalance or export data are run."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopicStatus:
    """The topic in which groups keep their offsets."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic."]
    partitions: Annotated[int, "Number of its partitions.", Range(1, MAX_PARTITIONS_PER_TOPIC)]
    replicas: Annotated[int, "Number of replicas of each.", Range(1, MAX_REPLICAS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClusterStatus:
    """What the cluster is, as of the last time the operator looked."""

    observed_generation: Annotated[
        int | None, "The metadata.generation this status was made from.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready says whether the cluster is as its spec says; Healthy, whether every partition "
        "has a leader and all its replicas.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    cluster_id: Annotated[str | None, "Kafka's id of the cluster.", Length(64)] = None
    replicas: Annotated[int | None, "Number of brokers there are.", Range(0, MAX_BROKERS)] = None
    ready_replicas: Annotated[
        int | None, "Number of brokers in sync with all they hold.", Range(0, MAX_BROKERS)
    ] = None
    selector: Annotated[
        str | None, "Label selector of the brokers' pods, for `kubectl scale`.", Length(1_024)
    ] = None
    listeners: Annotated[
        tuple[ListenerStatus, ...],
        "The addresses clients begin with.",
        Items(MAX_LISTENERS, key=("name",)),
    ] = ()
    volume_size: Annotated[
        Quantity | None,
        "The size that the brokers' volumes have reached, that of the largest. Above it, "
        "spec.storage.size can be taken back.",
    ] = None
    topics: Annotated[
        int | None, "Number of topics, without those of the cluster itself.", Range(0, MAX_INT32)
    ] = None
    partitions: Annotated[
        int | None, "Number of partitions of these topics.", Range(0, MAX_INT32)
    ] = None
    consumer_offsets: Annotated[
        OffsetsTopicStatus | None,
        "The topic __consumer_offsets, in which groups keep their offsets. By this id it is "
        "found on the brokers' disks, should its PartitionMap be lost.",
    ] = None
    offline_partitions: Annotated[
        int | None, "Partitions without a leader: they take and give nothing.", Range(0, MAX_INT32)
    ] = None
    under_replicated_partitions: Annotated[
        int | None, "Partitions with fewer replicas in sync than they have.", Range(0, MAX_INT32)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCluster(UsersResource):
    """A cluster of log brokers that speak the Apache Kafka protocol."""

    KIND = api.BROKER_CLUSTER

    spec: BrokerClusterSpec
    status: BrokerClusterStatus = field(default_factory=BrokerClusterStatus)

    def group_prefix(self, namespace: str) -> str:
        """How the groups begin that ConsumerGroups of a namespace may change."""
        if namespace == self.metadata.namespace:
            return ""
        settings = self.spec.consumer_groups or GroupSettings()
        named = {one.namespace: one.prefix for one in settings.namespace_prefixes}
        return named.get(namespace, f"{namespace}.")

    def allows(self, namespace: str) -> bool:
        """Whether Topics and ConsumerGroups of a namespace may name this cluster."""
        allowed = self.spec.allowed_topic_namespaces
        return namespace in {self.metadata.namespace, *allowed} or ALL_NAMESPACES in allowed
