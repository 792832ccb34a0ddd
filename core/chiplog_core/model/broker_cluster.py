"""BrokerCluster: the desired state of a cluster, and its actual state as the operator reports
it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.config.broker_keys import BROKER_KEYS
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import MAX_INT32, MAX_INT64, BrokerId, TopicId
from chiplog_core.limits import (
    MAX_BROKERS,
    MAX_CONDITIONS,
    MAX_GROUP_ID_LENGTH,
    MAX_LISTENERS,
    MAX_MESSAGE_LENGTH,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_REPLICAS,
)
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.authorization import ClusterAuthorization
from chiplog_core.model.auto_rebalance import (
    AutoRebalance,
    AutoRebalanceMode,
    AutoRebalanceStatus,
)
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.model.certificates import CertificateAuthority
from chiplog_core.model.conditions import Condition
from chiplog_core.model.listener import DEFAULT_LISTENERS, Listener, ListenerStatus
from chiplog_core.model.network_policy import NetworkPolicySettings
from chiplog_core.model.pod import Image, PodTemplate, PullPolicy, Resources
from chiplog_core.model.references import ConfigScalar, Namespace
from chiplog_core.model.resource import UsersResource
from chiplog_core.model.roll_policy import RollPolicy
from chiplog_core.model.spark import SparkSettings
from chiplog_core.model.spark_run import BytesPerSecond
from chiplog_core.model.storage import Storage
from chiplog_core.model.topic_policies import TopicPolicies
from chiplog_core.naming import api
from chiplog_core.quantities import Quantity

ALL_NAMESPACES = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """How replicas are spread over zones or racks."""

    topology_key: Annotated[
        str,
        "Node label whose value is the rack, like topology.kubernetes.io/zone. The replicas of a "
        "partition are spread over as many racks as possible.",
        Length(316, minimum=1),
        Pattern(
            r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
            "the key of a label, like topology.kubernetes.io/zone",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPrefix:
    """Prefix of the groups of another namespace."""

    namespace: Annotated[
        Namespace, "The namespace of the ConsumerGroup objects for which the prefix applies."
    ]
    prefix: Annotated[
        str,
        "Ids of groups must start with this prefix, like payments., so that "
        "ConsumerGroups of the namespace may change the groups.",
        Length(MAX_GROUP_ID_LENGTH, minimum=1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How the operator handles consumer groups."""

    discover: Annotated[
        bool,
        "Create a ConsumerGroup object for every consumer group, so that kubectl shows it.",
    ] = False
    namespace_prefixes: Annotated[
        tuple[GroupPrefix, ...],
        "Which groups a ConsumerGroup of another namespace may reset or give an offsetRetention: "
        "groups whose id starts with this prefix. The default prefix is the name of the namespace "
        "and a dot, like team-a.billing. Every group can be observed.",
        Items(200, key=("namespace",)),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Metrics of the brokers."""

    partitions: Annotated[
        bool,
        "Export metrics per partition and not only per topic: offsets, leader, replicas and size. "
        "That is about ten series per partition. A change takes effect without a restart.",
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Brokers under maintenance."""

    brokers: Annotated[
        tuple[BrokerId, ...],
        "Ids of brokers under maintenance: they lead no partitions, as long as other replicas are "
        "in sync, and get no new replicas. Their existing replicas stay. The operator does not "
        "restart them, and other brokers' restarts do not wait for them.",
        Items(MAX_BROKERS, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClusterSpec:
    """Desired state of the cluster."""

    replicas: Annotated[
        int,
        "Number of brokers. A higher number adds brokers immediately. With a lower number, the "
        "brokers with the highest ids, or those that the annotation chiplog.dev/remove-broker-ids "
        "names, are emptied first and are removed when everything they held is elsewhere.",
        Range(1, MAX_BROKERS),
    ]
    storage: Annotated[Storage, "The volume on which each broker keeps its data."]
    listeners: Annotated[
        tuple[Listener, ...],
        "Where clients connect. Default: one listener of type internal on port 9092.",
        Items(MAX_LISTENERS, key=("name",)),
    ] = ()
    cluster_ca: Annotated[
        CertificateAuthority | None,
        "The CA that issues the brokers' certificates, for listeners with TLS and for the "
        "connections of brokers and the operator to brokers.",
    ] = None
    clients_ca: Annotated[
        CertificateAuthority | None,
        "The CA whose certificates clients of listeners with authentication tls must show.",
    ] = None
    authorization: Annotated[
        ClusterAuthorization | None,
        "Whether brokers check what clients may do. Default: everybody may do everything. To set "
        "or remove it restarts the brokers, one after the other.",
    ] = None
    network_policy: Annotated[
        NetworkPolicySettings | None,
        "The NetworkPolicy of the brokers. If not set, the operator creates one.",
    ] = None
    rack: Annotated[Rack | None, "How replicas are spread over zones or racks."] = None
    durability: Annotated[
        Durability,
        "Durability of topics that do not set chiplog.durability: what must have happened to a "
        "record before it is acknowledged. Fsync: it is on disk on the leader and on every "
        "in-sync follower. PageCache: it is in their memory, as in Kafka by default.",
    ] = Durability.FSYNC
    config: Annotated[
        Mapping[str, ConfigScalar],
        "Broker configuration under Kafka's own names, like log.retention.hours. Numbers, "
        "booleans and strings are accepted. An unknown key makes the object not Ready, and the "
        "condition names the key.",
        BROKER_KEYS,
    ] = field(default_factory=dict)
    image: Annotated[
        Image | None,
        "Container image of the brokers; default: the image that the operator was installed with.",
    ] = None
    image_pull_policy: Annotated[
        PullPolicy, "When nodes pull the image: Always, IfNotPresent or Never."
    ] = PullPolicy.IF_NOT_PRESENT
    resources: Annotated[Resources | None, "CPU and memory of each broker."] = None
    template: Annotated[
        PodTemplate | None,
        "Settings of the brokers' pods. Only these can be set: anything else would give everybody "
        "who can write a BrokerCluster the permissions of its pods.",
    ] = None
    termination_grace_period_seconds: Annotated[
        int,
        "How long a broker has to hand over its leaderships before Kubernetes kills it.",
        Range(1, 3_600),
    ] = 60
    roll_policy: Annotated[
        RollPolicy | None,
        "When and how brokers are restarted. Default: at any time, one after the other, each "
        "after all replicas are in sync again.",
    ] = None
    replication_throttle: Annotated[
        BytesPerSecond | None,
        "How many bytes per second each broker sends at most, and receives at most, for replicas "
        "that are being moved. In-sync replicas are never throttled. Default: no limit. A change "
        "takes effect without a restart.",
    ] = None
    maintenance: Annotated[Maintenance | None, "Brokers under maintenance."] = None
    hibernate: Annotated[
        bool,
        "Stop all brokers and keep their data. The cluster resumes when this is set back to false.",
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
        "Other namespaces whose Topics and ConsumerGroups may refer to this cluster; * for all. "
        "The cluster's own namespace is always allowed.",
        Items(200, unique=True),
    ] = ()
    topic_policies: Annotated[
        TopicPolicies | None,
        "Rules for every topic, whether it is created with kubectl or by a Kafka client.",
    ] = None
    consumer_groups: Annotated[
        GroupSettings | None, "How the operator handles consumer groups."
    ] = None
    metrics: Annotated[MetricsSettings | None, "Metrics of the brokers."] = None
    broker_capacity: Annotated[
        BrokerCapacity | None,
        "How much each broker may hold: no Rebalance moves a replica to a broker that would hold "
        "more, unless its goals are listed without ReplicaCapacityGoal or DiskCapacityGoal, and "
        "brokers are not removed if the others would. It does not limit new topics or what "
        "producers write.",
    ] = None
    auto_rebalance: Annotated[
        tuple[AutoRebalance, ...],
        "When the operator rebalances the cluster automatically; default: never.",
        Items(len(AutoRebalanceMode), key=("mode",)),
    ] = ()
    spark: Annotated[
        SparkSettings | None, "How jobs that verify, rebalance or export data are run."
    ] = None

    @property
    def has_tls(self) -> bool:
        """Whether brokers have certificates of the cluster CA, and use TLS with each other and the
        operator: what clients send with TLS must not be readable on its way to a replica."""
        return any(listener.tls for listener in self.listeners)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicStatus:
    """An internal topic, which the operator creates with the cluster."""

    topic_id: Annotated[TopicId, "Kafka's id of the topic."]
    partitions: Annotated[
        int, "Number of partitions of the topic.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ]
    replicas: Annotated[
        int, "Number of replicas of each partition of the topic.", Range(1, MAX_REPLICAS)
    ]


class RollState(StrEnum):
    """How far a rolling restart has come."""

    PENDING = "pending"
    ONGOING = "ongoing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """A rolling restart that is not complete."""

    state: Annotated[
        RollState,
        "State of the restarts. pending: no broker is restarted before the next window or the "
        "approval. ongoing: brokers are restarted, each when it is safe.",
    ]
    since: Annotated[datetime, "When this state began."]
    brokers: Annotated[
        tuple[BrokerId, ...],
        "Ids of the brokers that are still to be restarted.",
        Items(MAX_BROKERS, unique=True),
    ]
    cause: Annotated[
        str, "Why the brokers must restart, like spec.config[fetch.max.bytes].", Length(1_024)
    ] = ""
    continues_at: Annotated[
        datetime | None, "When the next window opens, if the restarts wait for it."
    ] = None
    message: Annotated[str, "What the restarts wait for.", Length(MAX_MESSAGE_LENGTH)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClusterStatus:
    """Actual state of the cluster, as of the last reconciliation."""

    observed_generation: Annotated[
        int | None, "The metadata.generation that this status is about.", Range(0, MAX_INT64)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Ready: the cluster matches its spec. Healthy: every partition has a leader and all "
        "replicas in sync.",
        Items(MAX_CONDITIONS, key=("type",), shared=True),
    ] = ()
    cluster_id: Annotated[str | None, "Kafka's id of the cluster.", Length(64)] = None
    replicas: Annotated[int | None, "Number of existing brokers.", Range(0, MAX_BROKERS)] = None
    ready_replicas: Annotated[
        int | None, "Number of ready brokers whose replicas are all in sync.", Range(0, MAX_BROKERS)
    ] = None
    selector: Annotated[
        str | None,
        "Label selector of the brokers' pods, which `kubectl scale` needs.",
        Length(1_024),
    ] = None
    listeners: Annotated[
        tuple[ListenerStatus, ...],
        "Bootstrap addresses for clients.",
        Items(MAX_LISTENERS, key=("name",)),
    ] = ()
    revision: Annotated[
        str | None,
        "Revision of the settings that brokers read when they start, and of their pods. The "
        "brokers restart when it changes.",
        Length(64),
    ] = None
    roll: Annotated[
        Roll | None, "The rolling restart in progress, or waiting for a window or an approval."
    ] = None
    volume_size: Annotated[
        Quantity | None,
        "The size of the largest volume of the brokers. spec.storage.size can be reduced to this "
        "size, but not below it.",
    ] = None
    topics: Annotated[
        int | None, "Number of topics, without internal topics.", Range(0, MAX_INT32)
    ] = None
    partitions: Annotated[
        int | None,
        "Number of partitions of all topics, without internal topics.",
        Range(0, MAX_INT32),
    ] = None
    consumer_offsets: Annotated[
        InternalTopicStatus | None,
        "The topic __consumer_offsets, in which groups keep their offsets. The operator "
        "needs the topic's id to find the topic on the brokers' disks if its "
        "PartitionMap is lost.",
    ] = None
    transaction_state: Annotated[
        InternalTopicStatus | None,
        "The topic __transaction_state, in which coordinators keep transactions. The operator "
        "needs the topic's id as it needs that of consumerOffsets.",
    ] = None
    auto_rebalance: Annotated[
        AutoRebalanceStatus | None,
        "What the operator rebalances automatically; not set without spec.autoRebalance.",
    ] = None
    offline_partitions: Annotated[
        int | None,
        "Number of partitions without a leader: clients can neither write nor read them.",
        Range(0, MAX_INT32),
    ] = None
    under_replicated_partitions: Annotated[
        int | None,
        "Number of partitions with fewer in-sync replicas than replicas.",
        Range(0, MAX_INT32),
    ] = None
    sharing_partitions: Annotated[
        int | None,
        "Number of partitions, without internal topics, that have two replicas on one node or in "
        "one rack, although another one with a broker that takes replicas has none of them.",
        Range(0, MAX_INT32),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCluster(UsersResource):
    """A cluster of log brokers that speak the Apache Kafka protocol."""

    KIND = api.BROKER_CLUSTER

    spec: BrokerClusterSpec
    status: BrokerClusterStatus = field(default_factory=BrokerClusterStatus)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients: those of the spec, or the default one. The listener that
        brokers use among themselves is not one of them."""
        return self.spec.listeners or DEFAULT_LISTENERS

    def group_prefix(self, namespace: str) -> str:
        """The prefix that a group id must have so that a ConsumerGroup of this namespace may change
        the group. Empty for the cluster's own namespace: it may change every group."""
        if namespace == self.metadata.namespace:
            return ""
        settings = self.spec.consumer_groups or GroupSettings()
        named = {prefix.namespace: prefix.prefix for prefix in settings.namespace_prefixes}
        return named.get(namespace, f"{namespace}.")

    def allows(self, namespace: str) -> bool:
        """Whether Topics and ConsumerGroups of this namespace may refer to the cluster."""
        allowed = self.spec.allowed_topic_namespaces
        return namespace in {self.metadata.namespace, *allowed} or ALL_NAMESPACES in allowed
