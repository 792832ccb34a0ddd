"""What brokers say of a cluster, as values. Names are Kafka's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_cli.errors import BrokerRefused

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Timestamps that have another meaning in a ListOffsets request than a time."""

UNKNOWN_OFFSET = -1
"""An offset that does not exist: no record has this time or a later one, or none was committed."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker, with the address it tells clients to connect to."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The brokers there are."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The broker ids of one partition's leader and replicas. `leader` is None if it is offline."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    """The replicas that a reassignment adds; they are among `replicas`."""
    removing: tuple[int, ...] = ()
    """The replicas that it removes."""

    @property
    def replication_factor(self) -> int:
        """How many replicas there are without those that are being added."""
        return len(self.replicas) - len(self.adding)

    @property
    def is_under_replicated(self) -> bool:
        """Whether replicas are not in sync. One that is being added is not missing, as in Kafka's
        `TopicCommand.isUnderReplicated`."""
        return len(self.isr) < self.replication_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its partitions, in their order."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of a partition; 0 without partitions."""
        return max((partition.replication_factor for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created; None leaves a number to the cluster's defaults."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as a listing names it; `state` in Kafka's words, like Stable."""

    group_id: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One consumer of a group, and what it is to read."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


EMPTY, DEAD = "Empty", "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator describes it; one that does not exist is Dead."""

    group_id: str
    state: str
    assignor: str
    coordinator: Broker | None
    members: tuple[Member, ...]

    @property
    def is_inactive(self) -> bool:
        """Whether the group has no members, or does not exist."""
        return self.state in (EMPTY, DEAD)


Offsets = Mapping[TopicPartition, int | BrokerRefused]
"""The offset of each requested partition, or the error that its leader answered."""
