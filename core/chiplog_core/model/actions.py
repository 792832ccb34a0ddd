"""The actions of a plan: writes that do no harm if they come late, are lost or are repeated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from chiplog_core.ids import BrokerId, PartitionIndex, ReplicaRef
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_cluster import BrokerClusterStatus
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_status import ConsumerGroupStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.rebalance_status import RebalanceStatus
from chiplog_core.model.topic import Topic, TopicStatus
from chiplog_core.model.user import UserStatus
from chiplog_core.model.verification import VerificationStatus
from chiplog_core.naming import api


class EventType(StrEnum):
    """How Kubernetes sorts Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened, to be reported as an Event and in the log."""

    type: EventType
    reason: str
    """One CamelCase word for programs to compare."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition's leader changes: to another replica, or to another session of the same one."""

    partition: PartitionIndex
    before: ReplicaRef | None
    """None if the partition had no leader."""
    after: ReplicaRef | None
    """None if it has no leader any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object. If it exists by then, it is left as it is."""

    resource: Broker | PartitionMap | ConsumerGroup | Topic
    reason: str = ""
    """Reason of an Event about the new object; empty for no Event."""
    message: str = ""
    """Message of that Event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replace the spec of a Broker or PartitionMap, if it still has the version that was read."""

    resource: Broker | PartitionMap
    """The new object, with the `resource_version` from which the decision was made."""
    before: PartitionMap | None = None
    """For a PartitionMap: the map that is replaced. The write is refused if
    `validate.partition_map` finds that the change breaks an invariant."""
    weight: int = 0
    """How urgent the write is: the highest is written first. For a map, the number of partitions
    that get a leader."""
    leader_changes: tuple[LeaderChange, ...] = ()
    """The changes of leaders by this write, for Events."""
    news: tuple[News, ...] = ()
    """Other Events to make when this is written."""
    deleted_topic: Metadata | None = None
    """Set if the write adds a tombstone: the Topic that is being deleted. Brokers then delete the
    data. So directly before the write the operator reads again that this Topic (by uid) is being
    deleted, and that its namespace and the definition of Topics are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMap:
    """Delete the PartitionMap of a topic that has no data any more, if it still has this uid and
    resource version."""

    resource: PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete a ConsumerGroup that discovery created, if it still has this uid and resource version:
    if anybody has written to it in the meantime, it stays."""

    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetadata:
    """Change the metadata of a user's object, if it still has the version that was read."""

    kind: api.ResourceKind
    """TOPIC, CONSUMER_GROUP or BROKER_CLUSTER."""
    metadata: Metadata
    finalizers: tuple[str, ...] | None = None
    """All finalizers that the object should have; None to leave them as they are."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels to add."""
    removed_annotations: tuple[str, ...] = ()
    """Keys of annotations to remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Write the status of a user's object."""

    kind: api.ResourceKind
    metadata: Metadata
    status: (
        BrokerClusterStatus
        | TopicStatus
        | ConsumerGroupStatus
        | VerificationStatus
        | RebalanceStatus
        | UserStatus
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Create a Kubernetes Event. It is in the same plan as the change that it reports, so it is
    created once."""

    kind: str
    api_version: str
    metadata: Metadata
    """Metadata of the object that the Event is about."""
    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPod:
    """Delete a broker's pod, if it still has this uid, so that its StatefulSet creates it again."""

    broker_id: BrokerId
    pod_name: str
    pod_uid: str
    reason: str
    """Reason of the Event, like ConfigChangeRequiresRestart."""
    message: str = ""
    """Message of the Event."""
    requested_by: str = ""
    """Name of the StatefulSet whose annotation `labels.MANUAL_ROLLING_UPDATE` requested this, else
    empty. The annotation is removed after the pod. If the operator ends in between, the pod is
    restarted once more."""
    must_be_ready: tuple[BrokerId, ...] = ()
    """Brokers that are up according to the plan. Directly before the deletion the operator reads
    the pods of all brokers again, in one list, and deletes nothing unless all of these are ready:
    the plan may have been made from an older state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRestarts:
    """Set the annotation `labels.MANUAL_ROLLING_UPDATE` of these StatefulSets, because that of
    their BrokerCluster requests the restart of all brokers."""

    stateful_sets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The versions of the objects from which something that cannot be undone was decided. It is
    done only if a consistent read returns exactly these versions."""

    cluster_uid: str
    """uid of the BrokerCluster."""
    maps: Mapping[str, str]
    """Name -> resource version of every PartitionMap of the cluster."""
    brokers: Mapping[str, str]
    """The same of every Broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildVolume:
    """Delete a broker's volume claim and its pod, so that its StatefulSet creates both again.

    The claim goes first: Kubernetes keeps a claim that is being deleted until its pod is gone, so
    the next pod cannot start with it.
    """

    broker_id: BrokerId
    pod_name: str
    pod_uid: str
    claim_uid: str
    """uid of the claim; empty if the pod has none."""
    serving: Mapping[str, str]
    """Name -> uid of other pods of the cluster that must be ready, with claims that are not being
    deleted, since they have the data."""
    retired_pods: frozenset[str] = frozenset()
    """Names of pods of retired brokers, which may be stopping: they have no data."""
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClaim:
    """Delete the volume claim of a retired broker, as recorded in the Broker's
    `spec.claimRemoval`."""

    broker_id: BrokerId
    broker: Metadata
    """Metadata of the Broker object."""
    claim_name: str
    claim_uid: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTopic:
    """Create, patch or delete a Topic for an admin client, as field manager KAFKA_ADMIN.

    Exactly one of these is set: `create` (a whole manifest), `patch` (a merge patch, on the
    condition that `metadata.resource_version` is current) or `delete` (on the condition that uid
    and resource version are). The API server's answer is in `World.write_results` of later plans,
    under the request's id.
    """

    request_id: str
    """Unique among the requests of all brokers' processes; also in an annotation of the Topic."""
    metadata: Metadata
    """Name and namespace; uid and resource version, too, if the Topic exists."""
    create: Mapping[str, object] | None = None
    patch: Mapping[str, object] | None = None
    delete: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCredential:
    """What verifies a password, as a broker has encrypted it for the operator."""

    username: str
    sealed: str = field(repr=False)
    entry: str
    """The entry of the user's Secret that gets it."""
    before_user: bool
    """Whether it is stored before the User names the entry: the User has a Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteUser:
    """The same as `WriteTopic` for a User, without dry runs. With a `credential`, the user's Secret
    is written, too, and the result is that of both writes."""

    request_id: str
    metadata: Metadata
    create: Mapping[str, object] | None = None
    patch: Mapping[str, object] | None = None
    delete: bool = False
    credential: SealedCredential | None = None


Action: TypeAlias = (
    Create
    | Replace
    | DeleteMap
    | DeleteGroup
    | SetMetadata
    | Report
    | Announce
    | RestartPod
    | RebuildVolume
    | DeleteClaim
    | RequestRestarts
    | WriteTopic
    | WriteUser
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, and when to plan again if nothing changes before that."""

    brokers: tuple[BrokerId, ...]
    """The brokers whose Kubernetes objects should exist."""
    actions: tuple[Action, ...]
    requeue_after_ms: int | None = None
    may_apply: bool = True
    """Whether the brokers' Kubernetes objects are created and changed as the spec says. False if
    the spec is refused or the cluster is paused: then existing objects stay as they are."""
