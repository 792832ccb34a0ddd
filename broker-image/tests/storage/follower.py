"""A follower for tests: its leader's answers are what a test gives it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from chiplog_broker.histogram import Histogram
from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.partitions.events import ReplicaEvents
from chiplog_broker.partitions.follow_steps import FetchedPartition, FetchPosition
from chiplog_broker.partitions.following import Contact, Following, Taken
from chiplog_broker.partitions.partition import Partition, PartitionContext
from chiplog_broker.partitions.proposals import Proposals
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.protocol.messages import FetchPartitionResponse
from chiplog_wire.records.batch import set_place

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

EPOCH = 5
LAG_MAX_S = 10.0


def replica_of(log: PartitionLog, clock: Clock) -> Partition:
    """The replica of a log that nobody else touches."""
    context = PartitionContext(
        fetch_waiters=FetchWaiters(clock.monotonic_s),
        clock=clock,
        sync_latency=Histogram(),
        proposals=Proposals(Mock()),
        lag_max_s=lambda: LAG_MAX_S,
        events=Mock(spec=ReplicaEvents),
        consumers_read_followers=lambda: False,
    )
    return Partition(TopicPartition("orders", 0), log, 0, context)


@dataclass
class Follower:
    """A follower, and answers to what it asks."""

    replica: Partition
    make: "MakeBatch"
    clock: Clock
    halted: list[str] = field(default_factory=list)
    following: Following = field(init=False)

    async def begin(self, epoch: int = EPOCH, unclean_epoch: int = -1) -> None:
        """Follow in another leader epoch."""
        await self.following.stop()
        self.following = self.new_following(epoch, unclean_epoch)

    def new_following(self, epoch: int = EPOCH, unclean_epoch: int = -1) -> Following:
        view = PartitionView(0, 2, epoch, (1, 2), (2,), unclean_epoch=unclean_epoch)
        halted = partial(self.halted.append, "halted")
        return Following(self.replica, view, self.clock, halted, lambda: LAG_MAX_S)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    def batch(self, offset: int, *values: bytes, epoch: int = EPOCH) -> bytes:
        batch = memoryview(bytearray(self.make(list(values))))
        set_place(batch, offset, len(batch) - 12, epoch)
        return bytes(batch)

    async def position(self) -> FetchPosition:
        """When there is one again."""
        while (position := self.following.position()) is None:
            contact = Contact()
            self.following.use_contact(contact)
            await contact.news.wait()
        return position

    async def give(self, records: bytes = b"", **more: Any) -> Taken:
        """An answer to what is asked now."""
        answer = FetchPartitionResponse(
            0, **({"error_code": 0, "high_watermark": 0} | more), records=memoryview(records)
        )
        return await self.following.take(FetchedPartition(await self.position(), answer))


@asynccontextmanager
async def follower_of(
    kit: "StorageKit", make_batch: "MakeBatch", log: PartitionLog
) -> AsyncIterator[Follower]:
    """A follower with this log, until the end of the block."""
    one = Follower(replica_of(log, kit.clock), make_batch, kit.clock)
    one.following = one.new_following()
    yield one
    await one.following.stop()
