"""Where the cluster's metadata is kept and changed, and how a broker becomes part of it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.view import BrokerView, ClusterView, TopicView
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.storage.damage_history import FoundDamage
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.admin.operations import Request
from chiplog_core.model.broker_status import IsrProposal

TopicChanged = Callable[[TopicView], Awaitable[None]]
TopicDeleted = Callable[[str, UUID], Awaitable[None]]


class Proposals(Protocol):
    """Changes of in-sync replicas that were promised."""

    def oldest(self, most: int) -> tuple[IsrProposal, ...]:
        """So many, the oldest first."""


class MetadataStore(Protocol):
    """A file in standalone mode, the Kubernetes API otherwise."""

    async def submit(self, operation: Request, principal: str = ANONYMOUS) -> Outcome:
        """Have an admin operation carried out; returns when this broker has seen its effect."""


class LogEnd(NamedTuple):
    """How far a replica's log goes."""

    offset: int
    leader_epoch: int | None
    """The last one of the log, also where retention has emptied it; None where nothing ever was
    in it."""
    high_watermark: int = 0
    """Records below it were committed, as far as the disk remembers."""
    is_cut: bool = False
    """A start cut the end of the log, and the replica has not been in sync since."""


class Damaged(NamedTuple):
    """A replica whose bytes were found damaged and that is not whole again."""

    topic: str
    partition: int
    why: str
    is_refetching: bool
    """A copy was begun in its place; else what was found is all there is."""
    is_owing: bool = False
    """Somebody may still believe that the copy has what its forerunner had."""
    file: str = ""
    """Where the damage was found, in the data directory; empty where nobody could say."""
    offset: int | None = None
    """The first offset that could not be trusted."""


class Halted(NamedTuple):
    """A replica that does not follow its leader, because acknowledged records would be lost."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    why: str


class LocalReplicas(Protocol):
    """The replicas of this broker, as far as metadata commands and asks them."""

    def damaged(self) -> list[Damaged]:
        """The damaged replicas here, as far as they are not whole again."""

    @property
    def damage_history(self) -> Iterable[FoundDamage]:
        """What was found damaged here, also when it is whole again; the newest first."""

    async def condemn(self, topic_id: UUID, name: TopicPartition, why: str) -> bool:
        """Take a replica for damaged and serve it no more; False where there is none whole."""

    @property
    def is_short_of_space(self) -> bool:
        """Whether producers are refused because the volume is nearly full."""

    def halted(self) -> list[Halted]:
        """The replicas here that have stopped following."""

    async def apply(self, topic: TopicView) -> None:
        """Create, configure, lead or resign them as the topic's view says."""

    async def release(self, name: str) -> None:
        """Stop serving a topic; its data stays."""

    async def delete(self, name: str, topic_id: UUID) -> None:
        """Remove all data of exactly this topic."""

    async def flush(self, topic_id: UUID) -> None:
        """Make durable everything that is held of a topic."""

    @property
    def proposals(self) -> Proposals:
        """What leaders here have proposed and no map has answered."""

    def log_end(self, topic_id: UUID, name: str, partition: int) -> LogEnd:
        """How far the log goes; 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedData:
    """The data directory as this start found it."""

    storage_uuid: UUID
    closed_in_session: int | None
    """The session whose process closed it in order; None where none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This broker with its logs open: what metadata acts on."""

    cluster: ClusterView
    replicas: LocalReplicas
    data: OpenedData


class Authority(Protocol):
    """The service that elects leaders, as seen by a broker: in Kubernetes the API server."""

    answered_s: float
    """When it answered last, by the monotonic clock."""


class ReplicaReports(Protocol):
    """What the replicas of a broker notify metadata of. None may raise, or wait."""

    def proposals_changed(self) -> None:
        """`LocalReplicas.proposals` has changed."""

    def problems_changed(self) -> None:
        """`damaged`, `halted` or `is_short_of_space` may have changed."""

    def topic_outdated(self, topic: str) -> None:
        """Apply the topic's map again: a replica of it here was found damaged, or has been
        refetched."""


class MembershipEvents(Protocol):
    """What a membership notifies its broker of. None may raise, or wait."""

    def waits_for(self, what: str) -> None:
        """What the start of the broker waits for; empty if it waits for nothing."""

    def authority_answered(self) -> None:
        """The `Authority` has answered."""


class Membership(ReplicaReports, Protocol):
    """How one process becomes part of a cluster and learns its topics."""

    @property
    def incarnation(self) -> str | None:
        """The incarnation of this process; None for a standalone broker."""

    @property
    def authority(self) -> Authority | None:
        """Who could have made another the leader; None where nobody else can."""

    async def begin(self, events: MembershipEvents) -> str:
        """Begin; returns the cluster's id. `events` are notified from now on.

        Raises `CannotStart`, `ValueError`, `OSError`.
        """

    def known_topics(self) -> list[TopicView]:
        """The topics as of the last time: their logs are opened with these settings."""

    async def join(self, node: Node) -> MetadataStore:
        """Get a session, and bring the node's view and replicas up to date.

        From then on they follow every change until `leave`.
        """

    def listening(self, view: BrokerView) -> None:
        """The addresses that were bound, with what the configuration tells clients of them."""

    def is_ready(self) -> tuple[bool, str]:
        """Whether the replicas here have caught up, and what is missing."""

    def disk_failed(self) -> None:
        """A write or a sync failed: nothing is stored here any more."""

    async def drain(self) -> None:
        """Have leaderships taken away where somebody else can lead; never takes long."""

    async def leave(self) -> None:
        """Change nothing here any more. The logs are closed after it."""

    async def close(self) -> None:
        """The process ends: stop showing that it lives."""

    async def deposed(self) -> str:
        """Returns, with the reason, when this process may not act for its broker any more."""
