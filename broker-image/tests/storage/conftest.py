"""Fixtures of the storage tests: a disk that can lose power, a clock that stands still."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

import pytest

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.records.batch import Codec
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.storage.memory_disk import ManualClock, MemoryDisk, PowerCutError, SeededRng

_T = TypeVar("_T")

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")


@dataclass
class Notified:
    """Keeps what a data directory notifies of."""

    damaged: list[tuple[TopicPartition, DamagedLogError]] = field(default_factory=list)
    failures: list[OSError] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    compacting: int = 0

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        self.damaged.append((partition, found))

    def log_compacts(self) -> None:
        self.compacting += 1

    def logs_opened(self, progress: Progress) -> None:
        self.progress.append(progress)

    def disk_failed(self, failure: OSError) -> None:
        self.failures.append(failure)


@dataclass
class StorageKit:
    """What a storage test needs; `disk` is the machine in use, and can be exchanged."""

    disk: MemoryDisk
    clock: ManualClock
    config: LogConfig
    orders: TopicPartition = ORDERS
    topic_id: UUID = TOPIC_ID
    events: Notified = field(default_factory=Notified)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run(coroutine)

    async def open(self) -> LogDirectory:
        """Open the data directory on the disk in use."""
        ports = StoragePorts(self.disk, self.clock, SeededRng())
        options = OpenOptions(node_id=1, cluster_id="cluster", config_of=lambda _: self.config)
        return await LogDirectory.open(ports, options, self.events)

    async def open_again(self) -> LogDirectory:
        """Open it as the next process does."""
        self.disk.release_locks()
        return await self.open()

    async def new_log(self) -> tuple[LogDirectory, PartitionLog]:
        """A new directory with one empty log."""
        directory = await self.open()
        return directory, await directory.create(self.orders, self.topic_id, self.config)

    async def durable_log(self) -> tuple[LogDirectory, PartitionLog]:
        """A new directory with one log, which has one durable record."""
        directory, log = await self.new_log()
        log.append_as_leader(batch_of([b"x"]), 0, 1_000_000)
        await log.flush()
        return directory, log

    async def reopened(self) -> PartitionLog:
        """The log as the next process finds it on the disk in use."""
        directory = await self.open_again()
        assert self.orders in directory.logs, directory.quarantined
        return directory.logs[self.orders]

    def cut_power(self, seed: int = 0) -> None:
        self.disk = self.disk.after_power_cut(seed)

    def kill(self) -> None:
        self.disk = self.disk.after_kill()

    def path(self, name: str) -> str:
        return f"{self.orders.directory}/{name}"


@pytest.fixture
def kit() -> StorageKit:
    return new_kit()


@pytest.fixture(scope="session")
def kits() -> Callable[[], StorageKit]:
    """For tests that need many machines, one after the other."""
    return new_kit


def new_kit() -> StorageKit:
    return StorageKit(MemoryDisk(), ManualClock(), LogConfig())


class MakeBatch(Protocol):
    """Makes a batch as a client sends it."""

    def __call__(
        self,
        values: list[bytes],
        *,
        timestamp_ms: int = ...,
        producer: Producer | None = ...,
        codec: Codec = ...,
    ) -> memoryview: ...


def batch_of(
    values: list[bytes],
    *,
    timestamp_ms: int = 1_000_000,
    producer: Producer | None = None,
    codec: Codec = Codec.NONE,
) -> memoryview:
    """A batch as a client sends it."""
    records = [NewRecord(value, timestamp_ms=timestamp_ms) for value in values]
    options = BatchOptions(producer=producer or Producer(), codec=codec)
    return memoryview(build_batch(records, options))


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    return batch_of


@pytest.fixture
def power_cut() -> type[Exception]:
    """What a disk without power raises."""
    return PowerCutError
