"""All facts about one cluster that a plan may use, as observed at one moment."""

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
from chiplog_core.model.user import User
from chiplog_core.naming import api
from chiplog_core.problems import Problem
from chiplog_core.quantities import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A broker's pod, as far as decisions need it."""

    name: str
    uid: str
    address: str = ""
    """The pod's IP address; empty until it has one."""
    node: str = ""
    bound_at: datetime | None = None
    """When the scheduler chose the pod's node."""
    ready: bool = False
    starting: bool = False
    """Whether the broker's process runs and the kubelet has not found it started (startup probe):
    it may be recovering its logs."""
    running_since: datetime | None = None
    """Since when the broker's process runs; None if it does not, or the time is not known."""
    has_started: bool = False
    """Whether the broker's process has started up: if the pod is not ready then, the process itself
    says so, or another container is the reason."""
    ran_out_of_memory: bool = False
    """Whether a process of the broker was killed because of the pod's memory limit while it was
    starting, and the container has not started up since. A process that had served says nothing
    about the next one's start."""
    unready_since: datetime | None = None
    """Since when the pod is not ready, or not scheduled; None for one that is ready."""
    deleting: bool = False
    revision: str = ""
    """The annotation `labels.REVISION` with which the pod was created."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of the pod's annotations that the operator acts on (`labels.POD_ANNOTATIONS`)."""
    message: str = ""
    """Why the pod does not run, as Kubernetes reports it; empty if it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetState:
    """A broker's StatefulSet, as far as decisions need it: its annotations."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of the StatefulSet's own annotations that the operator acts on
    (`labels.POD_ANNOTATIONS`)."""
    template_annotations: Mapping[str, str] = field(default_factory=dict)
    """The same of the StatefulSet's pod template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimState:
    """A broker's volume claim, as far as decisions need it."""

    name: str
    uid: str = ""
    owners: frozenset[str] = frozenset()
    """The uids of the objects that own the claim: the BrokerCluster if the claim should be deleted
    with it."""
    is_pending: bool = False
    """Whether the claim has no volume yet (phase Pending)."""
    has_node: bool = False
    """Whether the scheduler chose a node for the claim's volume
    (`volume.kubernetes.io/selected-node`)."""
    node: str = ""
    """That node; empty if there is none."""
    has_volume: bool = False
    """Whether the claim names a volume, bound or not."""
    deleting: bool = False
    created_at: datetime | None = None
    requested: Quantity | None = None
    """The size that the claim requests."""
    capacity: Quantity | None = None
    """The size of the claim's volume; None while no volume is bound."""
    storage_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node that may run brokers."""

    name: str
    address: str = ""
    """The node's address of type InternalIP."""
    labels: Mapping[str, str] = field(default_factory=dict)
    cordoned: bool = False
    """Whether no new pod is scheduled there (`spec.unschedulable`), as after `kubectl cordon` and
    during `kubectl drain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A user's object whose spec cannot be parsed: only its status can be written."""

    metadata: Metadata
    cluster_name: str
    """Name of the cluster in its spec; empty if that cannot be parsed."""
    problems: tuple[Problem, ...]
    manifest_status: Mapping[str, object] = field(default_factory=dict)
    kind: api.ResourceKind = api.TOPIC
    """TOPIC, CONSUMER_GROUP or USER."""
    waits_for_map: bool = False
    """Whether the object is a Topic that can be parsed, but whose PartitionMap cannot. If it is
    deleted, its deletionPolicy is carried out only when the map can be parsed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The final answer of the API server to a write for an admin client.

    Final is only that the write was done (or its dry run accepted), or that it is refused for good
    (Invalid, Forbidden). After a Conflict, a NotFound or no answer, the next plan decides again.
    AlreadyExists to a create is not final either, because the object may be from an earlier attempt
    of the operator: it is read, and the next plan sees who created it. The create is refused only
    if the object is not a valid Topic of this cluster.
    """

    accepted: bool
    message: str = ""
    """Why the write was refused."""


class Question(NamedTuple):
    """A question to the replicas of a partition: which records they have. The partition epoch
    distinguishes it from earlier questions."""

    topic_id: TopicId
    partition: PartitionIndex
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One cluster. Each object is in the state of its last watch event."""

    metadata: Metadata
    """Metadata of the BrokerCluster object."""
    cluster: BrokerCluster | None
    """None if its spec cannot be parsed: then only elections continue."""
    cluster_problems: tuple[Problem, ...] = ()
    """Why the spec cannot be parsed."""
    manifest_status: Mapping[str, object] = field(default_factory=dict)
    """The status in the manifest of a BrokerCluster that cannot be parsed. Without it, the times
    of its conditions would be lost, and every report would differ from the one before."""
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    """Every Broker object of the cluster that can be parsed, including retired ones."""
    unreadable_brokers: Mapping[str, str] = field(default_factory=dict)
    """Name of a Broker object that cannot be parsed -> why, for example because a newer broker
    wrote its status. It may be in any state, even retired. So nothing is decided about it, nor
    anything that depends on knowing all brokers."""
    maps: Mapping[str, PartitionMap] = field(default_factory=dict)
    """Every PartitionMap of the cluster that can be parsed, by topic name."""
    unreadable_maps: frozenset[str] = frozenset()
    """Object names of PartitionMaps that cannot be parsed: their replicas may be on any broker."""
    topics: tuple[Topic, ...] = ()
    """Every Topic that names the cluster, from all namespaces, allowed or not."""
    groups: tuple[ConsumerGroup, ...] = ()
    users: tuple[User, ...] = ()
    """Every User that names the cluster and can be parsed, from all namespaces."""
    unreadable_users: frozenset[str] = frozenset()
    """Names of Users in the cluster's namespace that cannot be parsed."""
    rebalances: tuple[Rebalance, ...] = ()
    """The Rebalances of the cluster, from all namespaces, whose status is Rebalancing: the planner
    carries out the moves in their statuses."""
    unreadable: tuple[Unreadable, ...] = ()
    """Topics and ConsumerGroups that name the cluster and cannot be parsed."""
    ended: Mapping[Incarnation, str] = field(default_factory=dict)
    """Processes that are certainly dead or whose Lease expired, with the reason for users."""
    renewing: frozenset[Incarnation] = frozenset()
    """Processes whose Lease this operator process saw renewed (`LivenessJudge.alive`). Only that
    proves that a fenced process is still alive."""
    failed_disks: frozenset[Incarnation] = frozenset()
    """Ended processes that reported at their end that a write or a sync had failed."""
    running: frozenset[BrokerId] = frozenset()
    """Brokers whose Lease is held by a process that may be alive (`LivenessJudge.running`). The
    Broker object may not name this process, if it was restored from a backup."""
    silent_ms: Mapping[BrokerId, int] = field(default_factory=dict)
    """For how many milliseconds nobody has renewed a broker's Lease, as far as this operator
    process watched (`LivenessJudge.silent_ms`). A broker that is missing may just have done so."""
    pods: Mapping[BrokerId, PodState] = field(default_factory=dict)
    stateful_sets: Mapping[BrokerId, StatefulSetState] = field(default_factory=dict)
    claims: Mapping[BrokerId, ClaimState] = field(default_factory=dict)
    rigid_classes: frozenset[str] = frozenset()
    """StorageClasses that do not allow volume expansion. Only the classes of claims that are
    smaller than the spec says are checked."""
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    node_ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Service name -> listener name -> node port, as far as Kubernetes has allocated them."""
    service_addresses: Mapping[str, str] = field(default_factory=dict)
    """Service name -> the address of its load balancer, as far as there is one."""
    certified_hosts: Mapping[BrokerId, frozenset[str]] = field(default_factory=dict)
    """The hosts in the certificate of the cluster CA that a broker shows, as far as the broker
    certainly has it."""
    revisions: Mapping[BrokerId, str] = field(default_factory=dict)
    """The `labels.REVISION` annotation that each broker's pod should have now."""
    restart_reasons: tuple[str, ...] = ()
    """The fields of the BrokerCluster whose change changed the revision, if that was observed."""
    topics_definition_deleting: bool = False
    """Whether the CustomResourceDefinition of Topics is being deleted, which deletes all Topics. No
    user asked for the deletion of a single Topic then."""
    namespaces_deleting: frozenset[str] = frozenset()
    apply_problems: tuple[str, ...] = ()
    """Why Kubernetes objects of the cluster could not be created or changed in the last attempt."""
    ca_certificates: tuple[str, ...] = ()
    """The certificates of the cluster CA that clients must trust, in PEM format."""
    certificate_expiries: Mapping[str, datetime] = field(default_factory=dict)
    """When each of the cluster's certificates expires: cluster-ca, clients-ca, broker-1 and so
    on."""
    ca_replacements: tuple[str, ...] = ()
    """Where the replacement of each CA stands, in words, while one is being replaced."""
    refused_maps: tuple[str, ...] = ()
    """PartitionMaps that the operator itself refused to write after the last plan, with the rules
    that they would have broken (`validate.partition_map`)."""
    write_results: Mapping[str, WriteResult] = field(default_factory=dict)
    """The results of writes for admin clients by this operator process, by
    `WriteTopic.request_id` or `WriteUser.request_id`. They are kept for some minutes, longer than
    any client waits."""
    managed_fields: Mapping[Uid, object] = field(default_factory=dict)
    """metadata.managedFields of Topics and Users, by the object's uid, as the API server sent them:
    who set which field. They are references into the cached manifests. With them an admin client's
    change of another manager's field is refused, and ChangedByClients is decided."""
    open_questions_ms: Mapping[Question, int] = field(default_factory=dict)
    """Milliseconds since this operator process first saw an answer to each question from a live
    member of the ISR (`report_requests.Watch`). Questions without such an answer are missing."""
    maps_check: str = ""
    """Identifies the last list of PartitionMaps by this operator process; each list has another id.
    A broker that has this id in `Broker.status.mapsChecked` has compared its disks with maps that
    it read after that list. Empty if brokers are not asked to compare."""
    is_complete: bool = True
    """Whether all kinds of objects were listed since the operator started. Before that, a missing
    object proves nothing."""
    sees_all_topics: bool = True
    """Whether the operator watches every namespace whose Topics the cluster allows."""
