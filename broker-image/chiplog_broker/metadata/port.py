"""The interfaces of the cluster's metadata: how a broker joins a cluster, and learns and changes
it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.view import BrokerView, ClusterView, TopicView
from chiplog_broker.security.cluster_access import ClusterAccess
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.security.tls import TlsFiles
from chiplog_broker.storage.damage_history import FoundDamage
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.admin.operations import Request
from chiplog_core.model.broker_status import IsrProposal

TopicChanged = Callable[[TopicView], Awaitable[None]]
TopicDeleted = Callable[[str, UUID], Awaitable[None]]


class Proposals(Protocol):
    """Proposed changes of the ISR that are not answered yet."""

    def oldest(self, most: int) -> tuple[IsrProposal, ...]:
        """Up to `most` of them, the oldest first."""


class MetadataStore(Protocol):
    """The metadata: files in standalone mode, the Kubernetes API otherwise."""

    async def submit(self, operation: Request, principal: str = ANONYMOUS) -> Outcome:
        """Carry out an admin operation for this principal. Returns the result once this broker's
        view shows it."""


class LogEnd(NamedTuple):
    """The end of a replica's log."""

    offset: int
    leader_epoch: int | None
    """The last leader epoch of the log, also if retention has deleted all records; None if it never
    had any."""
    high_watermark: int = 0
    """The last stored high watermark: records below it were committed."""
    lost_end: bool = False
    """Whether recovery truncated the log, and the replica has not been in sync since."""


class Damaged(NamedTuple):
    """A replica that was found damaged and is not completely refetched."""

    topic: str
    partition: int
    why: str
    is_refetching: bool
    """Whether a new copy was begun; if not, only the damaged replica exists."""
    must_catch_up: bool = False
    """Whether other brokers may still count on records of the damaged replica that the copy
    lacks."""
    file: str = ""
    """The damaged file, in the data directory; empty if it is not known."""
    offset: int | None = None
    """The first offset that could not be trusted."""


class Halted(NamedTuple):
    """A replica that does not follow its leader, because that would lose acknowledged records."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    why: str


class Settled(NamedTuple):
    """A partition led here whose replicas all have every committed record on disk, and have stored
    the map of this leader epoch. The data of replicas that were moved away is not needed."""

    topic_id: UUID
    partition: int
    session: int
    leader_epoch: int


class LocalReplicas(Protocol):
    """The replicas of this broker, as metadata controls and queries them."""

    def damaged(self) -> list[Damaged]:
        """The damaged replicas here that are not completely refetched."""

    @property
    def damage_history(self) -> Iterable[FoundDamage]:
        """All damage found here, also if it has been repaired; the newest first."""

    async def mark_damaged(self, topic_id: UUID, name: TopicPartition, why: str) -> bool:
        """Treat a replica as damaged because of `why`, and stop serving it. Returns False if there
        is no undamaged replica here."""

    @property
    def is_short_of_space(self) -> bool:
        """Whether producers are refused because the volume is nearly full."""

    @property
    def log_bytes(self) -> int:
        """Size of all replicas here."""

    def halted(self) -> list[Halted]:
        """The replicas here that have stopped following."""

    def settled(self) -> list[Settled]:
        """The partitions led here that await the proof and have it (`Settled`)."""

    async def apply(self, topic: TopicView) -> None:
        """Create, configure, lead or stop replicas, as the topic's view says."""

    async def release(self, name: str) -> None:
        """Stop serving a topic; its data stays."""

    async def delete(self, name: str, topic_id: UUID) -> None:
        """Delete all data of exactly this topic."""

    async def remove(self, topic_id: UUID, name: TopicPartition) -> None:
        """Delete the data of a replica that was moved away; nothing happens if there is none."""

    async def flush(self, topic_id: UUID) -> None:
        """Make all records of a topic durable."""

    @property
    def proposals(self) -> Proposals:
        """The proposals of leaders here that no map has answered."""

    def log_end(self, topic_id: UUID, name: str, partition: int) -> LogEnd:
        """The end of a replica's log; offset 0 if there is no such replica here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedData:
    """The state of the data directory when it was opened."""

    storage_uuid: UUID
    closed_in_session: int | None
    """The session of the process that shut down cleanly; None if there was no clean shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This broker with its open logs, which metadata acts on."""

    cluster: ClusterView
    replicas: LocalReplicas
    data: OpenedData
    access: ClusterAccess | None = None
    """The ACLs and users that metadata keeps current; None if the broker needs none."""
    certificates: Mapping[str, TlsFiles | None] = field(default_factory=dict)
    """Listener with TLS -> what it shows, and whom it trusts; None until it is bound."""


class Authority(Protocol):
    """The service that elects leaders, as seen by a broker: in Kubernetes the API server."""

    answered_s: float
    """When it answered last, in seconds of the monotonic clock."""


class ReplicaReports(Protocol):
    """The notifications from the replicas of a broker to metadata. None may raise or wait."""

    def proposals_changed(self) -> None:
        """`LocalReplicas.proposals` has changed."""

    def problems_changed(self) -> None:
        """`damaged`, `halted` or `is_short_of_space` may have changed."""

    def partition_settled(self) -> None:
        """`LocalReplicas.settled` has another partition."""

    def topic_outdated(self, topic: str) -> None:
        """Apply the topic's map again: a replica of it here was found damaged, or has been
        refetched."""


class MembershipEvents(Protocol):
    """The notifications from a membership to its broker. None may raise or wait."""

    def waits_for(self, what: str) -> None:
        """Report what the start of the broker waits for; empty if it waits for nothing."""

    def authority_answered(self) -> None:
        """The `Authority` has answered."""


class Membership(ReplicaReports, Protocol):
    """How a process joins a cluster and learns its topics."""

    @property
    def incarnation(self) -> str | None:
        """The incarnation of this process; None for a standalone broker."""

    @property
    def authority(self) -> Authority | None:
        """The service that could elect another leader; None for a standalone broker."""

    async def begin(self, events: MembershipEvents) -> str:
        """Start the membership and return the cluster id. `events` are notified from now on.

        Raises `CannotStart`, `ValueError`, `OSError`.
        """

    def known_topics(self) -> list[TopicView]:
        """The topics that the last process knew: logs are opened with these settings."""

    async def join(self, node: Node) -> MetadataStore:
        """Get a session, and bring the node's view and replicas up to date.

        From then on they follow every change until `leave`.
        """

    def listening(self, view: BrokerView) -> None:
        """Set the bound addresses, and those that the configuration advertises to clients."""

    def is_ready(self) -> tuple[bool, str]:
        """Whether the replicas here have caught up, and in words what is missing."""

    def disk_failed(self) -> None:
        """A write or a sync failed: nothing is stored here any more."""

    async def drain(self) -> None:
        """Let other brokers take over the leaderships, if they can; limited in time."""

    async def leave(self) -> None:
        """Stop following changes of the cluster. The logs are closed afterwards."""

    async def close(self) -> None:
        """Release everything that `begin` started: the process ends."""

    async def deposed(self) -> str:
        """Wait until this process may not act for its broker any more; returns the reason."""
