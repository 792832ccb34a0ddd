"""Everything the planner may know about one cluster, read at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from chiplog_core.ids import BrokerId, Incarnation, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.metadata import Metadata, Uid
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.topic import Topic
from chiplog_core.naming import api
from chiplog_core.problems import Problem
from chiplog_core.quantities import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A broker's pod, as far as decisions need it."""

    name: str
    uid: str
    address: str = ""
    """Its IP address; empty until it has one."""
    node: str = ""
    bound_at: datetime | None = None
    """When the scheduler gave it the node."""
    ready: bool = False
    deleting: bool = False
    revision: str = ""
    """The `labels.REVISION` annotation it was started with."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those that ask for a restart (`labels.RESTART_ANNOTATIONS`)."""
    message: str = ""
    """Why it does not run, in the words of Kubernetes; empty where it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetState:
    """A broker's StatefulSet, as far as decisions need it: who asks for a restart."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of its own, those that ask for a restart (`labels.RESTART_ANNOTATIONS`)."""
    template_annotations: Mapping[str, str] = field(default_factory=dict)
    """The same of its pod template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimState:
    """A broker's volume claim, as far as decisions need it."""

    name: str
    is_pending: bool = False
    """It has no volume yet (phase Pending)."""
    has_node: bool = False
    """The scheduler chose a node for its volume (`volume.kubernetes.io/selected-node`)."""
    has_volume: bool = False
    """It names its volume, bound to it or not."""
    deleting: bool = False
    created_at: datetime | None = None
    requested: Quantity | None = None
    """The size that it asks for."""
    capacity: Quantity | None = None
    """The size of its volume; None while it is not bound."""
    storage_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node that may run brokers."""

    name: str
    address: str = ""
    """Its InternalIP."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A user's object whose spec cannot be parsed: only its status can be written."""

    metadata: Metadata
    cluster_name: str
    """The cluster it names, as far as that can be read."""
    problems: tuple[Problem, ...]
    manifest_status: Mapping[str, object] = field(default_factory=dict)
    kind: api.ResourceKind = api.TOPIC
    """TOPIC or CONSUMER_GROUP."""
    is_held: bool = False
    """A Topic that reads while its PartitionMap does not: what becomes of its data when it is
    deleted waits until the map reads again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What the API server said to a write that an admin client asked for.

    Only final words are results: the write was done (or a dry run accepted), or it can never be
    done as it is (Invalid, Forbidden). A Conflict, NotFound or missing answer is none: the next
    plan decides again. Nor is AlreadyExists to a create, which may be our own of before: the
    object is read and put into the cache, and the next plan sees whose it is. Only if that
    object does not read as a Topic of this cluster, the create is refused.
    """

    accepted: bool
    message: str = ""


class Question(NamedTuple):
    """A partition whose replicas are asked what they have, at the epoch at which they are."""

    topic_id: TopicId
    partition: PartitionIndex
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One cluster. Objects are in the state of their last event; none is older than that."""

    metadata: Metadata
    """Of the BrokerCluster object."""
    cluster: BrokerCluster | None
    """None where its spec does not read: then only elections continue."""
    cluster_problems: tuple[Problem, ...] = ()
    """Why it does not read."""
    manifest_status: Mapping[str, object] = field(default_factory=dict)
    """The status in the manifest of a BrokerCluster that does not read: without it, the times
    of its conditions would be lost and every report would differ from the one before."""
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    """Every Broker object of the cluster that reads, retired ones too."""
    unreadable_brokers: Mapping[str, str] = field(default_factory=dict)
    """Object name -> why it does not read, as where a newer broker wrote its status. It may be
    anything, retired too: nothing is decided about it, nor what depends on all brokers there are.
    """
    maps: Mapping[str, PartitionMap] = field(default_factory=dict)
    """Every PartitionMap of the cluster that reads, by topic name."""
    unreadable_maps: frozenset[str] = frozenset()
    """Object names of PartitionMaps that do not read: some replica may be on any broker."""
    topics: tuple[Topic, ...] = ()
    """Every Topic that names the cluster, from all namespaces, allowed or not."""
    groups: tuple[ConsumerGroup, ...] = ()
    rebalances: tuple[Rebalance, ...] = ()
    """Those that name the cluster, from all namespaces, and say that they are being carried out:
    their statuses are orders."""
    unreadable: tuple[Unreadable, ...] = ()
    """Topics and ConsumerGroups that name the cluster and do not read."""
    ended: Mapping[Incarnation, str] = field(default_factory=dict)
    """Processes that are dead for certain or whose Lease expired, with the reason for people."""
    renewing: frozenset[Incarnation] = frozenset()
    """Processes whose Lease this operator process saw renewed (`LivenessJudge.alive`): the one
    proof that a process which was fenced lives after all."""
    failed_disks: frozenset[Incarnation] = frozenset()
    """Ended processes whose last word was that a write or a sync had failed."""
    running: frozenset[BrokerId] = frozenset()
    """Brokers whose Lease is held by a process that may be alive (`LivenessJudge.running`), also
    one that the Broker object does not know: where that was restored, it names another."""
    pods: Mapping[BrokerId, PodState] = field(default_factory=dict)
    stateful_sets: Mapping[BrokerId, StatefulSetState] = field(default_factory=dict)
    claims: Mapping[BrokerId, ClaimState] = field(default_factory=dict)
    rigid_classes: frozenset[str] = frozenset()
    """StorageClasses that do not expand volumes (`allowVolumeExpansion`), as far as was asked: of
    claims that are smaller than the spec says."""
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    node_ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Service name -> listener name -> node port, as far as Kubernetes has allocated them."""
    revisions: Mapping[BrokerId, str] = field(default_factory=dict)
    """The `labels.REVISION` each broker's pod should have now."""
    restart_reasons: tuple[str, ...] = ()
    """The fields of the BrokerCluster that changed the revision, as far as that was seen."""
    topics_definition_deleting: bool = False
    """The CustomResourceDefinition of Topics is being deleted: no deletion of a Topic is meant by a
    user."""
    namespaces_deleting: frozenset[str] = frozenset()
    apply_problems: tuple[str, ...] = ()
    """Why Kubernetes objects of the cluster could not be made as they should be, the last time
    that was tried."""
    refused_maps: tuple[str, ...] = ()
    """Writes of PartitionMaps that the operator itself refused after the last plan, and which rules
    they would have broken (`validate.partition_map`)."""
    write_results: Mapping[str, WriteResult] = field(default_factory=dict)
    """Of writes for admin clients that this operator process tried, by `WriteTopic.request_id`.
    Kept for some minutes: longer than any request waits."""
    managed_fields: Mapping[Uid, object] = field(default_factory=dict)
    """metadata.managedFields of the Topics, by the Topic's uid, as the API server sent them. They
    are checked only where an admin client wants to change that Topic; references into the
    cached manifests do."""
    requested_ms: Mapping[Question, int] = field(default_factory=dict)
    """Milliseconds since this operator process first saw an answer to each question from a live
    member of the ISR (`report_requests.Watch`). Questions without such an answer are missing."""
    maps_check: str = ""
    """Names the last time this operator process listed PartitionMaps, again with every list. What
    is in them counts where the brokers answered it (`Broker.status.mapsChecked`): they compared
    their disks with maps read after that. Empty: they are not asked."""
    is_complete: bool = True
    """Whether every kind was listed since the operator started; nothing is concluded from
    absence before."""
    sees_all_topics: bool = True
    """Whether the operator watches every namespace whose Topics the cluster allows."""
