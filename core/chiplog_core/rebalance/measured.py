"""The input of a proposal: brokers, partitions as the cluster has them, and measured figures.

Bytes are those of keys, values and headers, before compression. Rates are means over the time
window of the job's request (`RebalanceJob.window_ms`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.rebalance.capacity import UNLIMITED, Capacity


class PartitionName(NamedTuple):
    """Topic and number of a partition; as text like orders-3."""

    topic: str
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that may hold replicas."""

    broker_id: BrokerId
    rack: str | None = None
    node: str | None = None
    """The node on which the broker runs; None if it is not known."""
    is_usable: bool = True
    """Whether the broker may get leaders and replicas: it serves, and is not about to leave."""
    capacity: Capacity = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as the map of its topic has it."""

    name: PartitionName
    replicas: tuple[BrokerId, ...]
    """The first one is the preferred leader."""
    isr: tuple[BrokerId, ...]
    leader: BrokerId | None
    """None while the partition is offline."""
    leader_epoch: LeaderEpoch
    known_bytes: int | None = None
    """The size of one replica, if it is known although the rates may not be."""
    adding: tuple[BrokerId, ...] = ()
    """The brokers to which a replica is being copied now."""

    def __post_init__(self) -> None:
        assert self.replicas, f"{self.name} has no replicas"
        assert set(self.isr) <= set(self.replicas), (
            f"{self.name}: the ISR has brokers without a replica"
        )
        assert self.leader is None or self.leader in self.replicas, (
            f"{self.name}: the leader holds no replica"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key with a large part of its partition's records."""

    key: bytes
    """The key, maybe shortened by the job."""
    records: int
    """At least this many of the checked records have the key."""
    records_at_most: int
    """At most this many have it: the job counts with a sketch, which is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured figures of one partition. Bytes are those of one replica."""

    bytes: int
    records: int
    bytes_per_second: float = 0.0
    records_per_second: float = 0.0
    sampled_records: int = 0
    """How many records were checked for hot keys."""
    hot_keys: tuple[HotKey, ...] = ()

    @property
    def weight(self) -> int:
        """The rate in thousandths of a byte per second, as a whole number so that sums are
        exact."""
        return round(self.bytes_per_second * 1000)


Measurements = Mapping[PartitionName, Measured]
"""A partition that is missing was not measured, and it is not moved."""


def sizes_of(
    partitions: Iterable[Partition], measurements: Measurements
) -> dict[PartitionName, int]:
    """The size of one replica of each partition, in bytes. Partitions of unknown size are left
    out."""
    found = {
        partition.name: partition.known_bytes
        for partition in partitions
        if partition.known_bytes is not None
    }
    return found | {name: measured.bytes for name, measured in measurements.items()}
