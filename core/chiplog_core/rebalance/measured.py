"""What a proposal is made from: brokers, partitions as the cluster has them, and what was measured.

Bytes are those of keys, values and headers, before compression. Rates are over the window that
the measuring reports.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex


class PartitionName(NamedTuple):
    """A partition, as everybody names it."""

    topic: str
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that may hold replicas."""

    broker_id: BrokerId
    rack: str | None = None
    is_usable: bool = True
    """Whether it may get leaders and replicas: it serves, and is not about to leave."""


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

    def __post_init__(self) -> None:
        assert self.replicas, f"{self.name} has no replicas"
        assert set(self.isr) <= set(self.replicas), f"{self.name}: an ISR beyond the replicas"
        assert self.leader is None or self.leader in self.replicas, f"{self.name}: a foreign leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key with a large part of its partition's records."""

    key: bytes
    """At most as long as the measuring keeps keys."""
    records: int
    """At least this many records have it."""
    records_at_most: int
    """And at most this many: a sketch counted them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the data of one partition says. Bytes are those of one replica."""

    bytes: int
    records: int
    bytes_per_second: float = 0.0
    records_per_second: float = 0.0
    sampled_records: int = 0
    """This many were checked for the hot keys."""
    hot_keys: tuple[HotKey, ...] = ()

    @property
    def weight(self) -> int:
        """The rate in thousandths of a byte per second, as a whole number so that sums are
        exact."""
        return round(self.bytes_per_second * 1000)


Measurements = Mapping[PartitionName, Measured]
"""A partition that is not in it was not measured, and nothing of it is moved."""
