"""What the planner may ask for: each a write that is harmless when late, lost or repeated."""

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
from chiplog_core.model.verification import VerificationStatus
from chiplog_core.naming import api


class EventType(StrEnum):
    """How Kubernetes sorts Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened, for an Event and the log."""

    type: EventType
    reason: str
    """One CamelCase word for programs to compare."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition's leadership passes from one replica, in its session, to another."""

    partition: PartitionIndex
    before: ReplicaRef | None
    after: ReplicaRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make an object; one that exists by then is left as it is."""

    resource: Broker | PartitionMap | ConsumerGroup | Topic
    reason: str = ""
    """For an Event about what was made; none where empty."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Write the spec of a Broker or PartitionMap over the very version that was read."""

    resource: Broker | PartitionMap
    """With the `resource_version` that the decision was made from."""
    before: PartitionMap | None = None
    """Of a PartitionMap: what it replaces. It is written only where `validate.partition_map` has
    nothing against the change."""
    weight: int = 0
    """How urgent: the highest go first (partitions that get a leader)."""
    leader_changes: tuple[LeaderChange, ...] = ()
    """The partitions whose leader is another one by this write."""
    news: tuple[News, ...] = ()
    """What else happens by this write that the owner of the cluster should hear of."""
    deleted_topic: Metadata | None = None
    """Set where the write adds a tombstone: the Topic whose deletion it carries out. Data goes
    by it, so directly before it the operator reads afresh that this very Topic (uid) is being
    deleted, and that neither its namespace nor the definition of Topics is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMap:
    """Remove a PartitionMap of which nothing is left, by its uid and resource version."""

    resource: PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Remove a ConsumerGroup that discovery made, by its uid and resource version: where anybody
    has written to it since, it stays."""

    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMetadata:
    """Change a user's object beside its spec, if it still is the version that was read."""

    kind: api.ResourceKind
    """TOPIC or CONSUMER_GROUP."""
    metadata: Metadata
    finalizers: tuple[str, ...] | None = None
    """All that it is to have; None where they stay."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Write the status of a user's object: the one field of it that is the operator's."""

    kind: api.ResourceKind
    metadata: Metadata
    status: (
        BrokerClusterStatus
        | TopicStatus
        | ConsumerGroupStatus
        | VerificationStatus
        | RebalanceStatus
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Make a Kubernetes Event. The planner asks for it once, together with the change that it
    reports."""

    kind: str
    api_version: str
    metadata: Metadata
    """Of the object it is about."""
    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPod:
    """Delete a broker's pod, so that its StatefulSet starts it again; only this very pod."""

    broker_id: BrokerId
    pod_name: str
    pod_uid: str
    reason: str
    """For the Event, like ConfigChangeRequiresRestart."""
    message: str = ""
    """For the Event, where the reason does not say it all."""
    requested_by: str = ""
    """The StatefulSet whose annotation `labels.MANUAL_ROLLING_UPDATE` asked for it: that is taken
    away when the pod is. A process that ends in between restarts the pod once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTopic:
    """Create, patch or delete a Topic for an admin client, as field manager KAFKA_ADMIN.

    Exactly one of `create` (a whole manifest), `patch` (a merge patch, made conditional by
    `metadata.resource_version`) and `delete` (with the uid and the resource version as
    preconditions) is given. What the API server says to it comes back in `World.write_results`
    under the request's id.
    """

    request_id: str
    """Unique among all requests of all brokers' processes; also in the Topic's annotation."""
    metadata: Metadata
    """Name and namespace; uid and resource version where the Topic exists."""
    create: Mapping[str, object] | None = None
    patch: Mapping[str, object] | None = None
    delete: bool = False
    dry_run: bool = False


Action: TypeAlias = (
    Create
    | Replace
    | DeleteMap
    | DeleteGroup
    | SetMetadata
    | Report
    | Announce
    | RestartPod
    | WriteTopic
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, and when to plan again if nothing changes before."""

    brokers: tuple[BrokerId, ...]
    """The brokers whose Kubernetes objects should exist."""
    actions: tuple[Action, ...]
    requeue_after_ms: int | None = None
    may_apply: bool = True
    """Whether those are to be made as the spec says. Not where it is refused, or the cluster is
    paused: then what there is stays as it is."""
