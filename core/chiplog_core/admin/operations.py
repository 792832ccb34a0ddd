"""The operations that admin clients request.

They are the same in standalone mode, where a broker carries them out in a file, and on Kubernetes,
where the operator does. A number that is `None` stands for the cluster's default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from chiplog_core.admin.config_change import ConfigChange
from chiplog_core.client_quotas.entities import Quota
from chiplog_core.ids import TopicId
from chiplog_core.model.access_list import AclEntry

DEFAULT_TIMEOUT_MS = 30_000
"""How long a client waits for an operation if its request has no timeout."""

OF_USERS_TIMEOUT_MS = 25_000
"""The same for operations on users: a little less than the time after which Kafka's clients send
a request again, so that they get its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic. If `assignments` (partition -> broker ids) are given, they determine the
    numbers of partitions and replicas."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete a topic and its records.

    `topic_id` is the topic's id as the broker knew it that got the request. If it is given, another
    topic that was created with the same name in the meantime is not deleted, even if the operation
    is carried out late or repeatedly.
    """

    name: str
    topic_id: TopicId | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    """Increase the number of partitions to `partitions`. `assignments` has the broker ids of each
    new partition; empty to let the cluster place them."""

    name: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] = ()
    validate_only: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopic:
    """Change a topic's own configuration. With `replace`, the changes become the whole
    configuration."""

    name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureBroker:
    """Change the part of a broker's configuration that clients may set."""

    broker_id: int
    changes: tuple[ConfigChange, ...]
    validate_only: bool = False

    @property
    def name(self) -> str:
        """The broker's id: requests for the same name are carried out one after the other."""
        return str(self.broker_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """Elect the preferred leaders of partitions, or (unclean) any replica that is alive.

    `partitions` maps each partition to its leader epoch as the broker knew it that got the request.
    If the preferred leader leads with a higher epoch afterwards, the election was carried out; if
    it leads with the same epoch, none was needed.
    """

    name: str
    partitions: Mapping[int, int]
    topic_id: TopicId | None = None
    is_unclean: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """The brokers that the replicas of a partition should be moved to."""

    replicas: tuple[int, ...] | None
    """The preferred leader first; None to cancel the present reassignment."""
    partition_epoch: int
    """The partition epoch as the broker knew it that got the request. A cancellation was carried
    out if the epoch is higher afterwards and no reassignment is in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignPartitions:
    """Move the replicas of partitions to other brokers (KIP-455)."""

    name: str
    topic_id: TopicId
    targets: Mapping[int, PartitionTarget]
    """Partition -> its new replicas."""
    allows_another_count: bool = True
    """Whether a partition may get another number of replicas (KIP-860)."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAcls:
    """Create ACLs of one principal, or delete them. Those that exist, or do not, stay as they
    are."""

    name: str
    """The principal: requests for the same one are carried out one after the other."""
    acls: tuple[AclEntry, ...]
    is_deletion: bool = False
    timeout_ms: int = OF_USERS_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterScram:
    """Store what verifies a user's password with SCRAM-SHA-512, or delete it."""

    username: str
    sealed: str | None = None
    """The verifier, encrypted (`chiplog_wire.sealing`); None to delete it."""
    timeout_ms: int = OF_USERS_TIMEOUT_MS

    @property
    def name(self) -> str:
        """The principal."""
        return f"User:{self.username}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas:
    """Set quotas of a user, and remove others."""

    username: str
    values: Mapping[Quota, float | None]
    """None for those to remove."""
    validate_only: bool = False
    timeout_ms: int = OF_USERS_TIMEOUT_MS

    @property
    def name(self) -> str:
        """The principal."""
        return f"User:{self.username}"


Operation: TypeAlias = CreateTopic | DeleteTopic | GrowTopic | ConfigureTopic
"""The operations that change a topic, in standalone mode and on Kubernetes."""

Request: TypeAlias = Operation | ConfigureBroker | ElectLeaders | ReassignPartitions
"""The operations of the operator. A standalone broker is the only replica, so it elects no leaders,
moves no replicas, and throttles none."""

OfUser: TypeAlias = AlterAcls | AlterScram | AlterQuotas
"""The operations that change User objects. A standalone broker stores ACLs, users and quotas
itself."""

OperatorRequest: TypeAlias = Request | OfUser
"""All operations that brokers forward to the operator."""
