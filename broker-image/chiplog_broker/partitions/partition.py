"""One replica on this broker: may it be written, how far is it safe, who waits for it.

The high watermark is the end of what every acknowledged reader may see. With `Fsync` it
follows the sync of the disk, with `PageCache` the append. It never goes back within a
leader epoch.
"""

import asyncio
import logging

from chiplog_broker.histogram import Histogram
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.waiting import FetchWaiter, FetchWaiters, ProduceWaiters, Settled
from chiplog_broker.ports.clock import Clock
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log import AppendResult, LogSlice, PartitionLog
from chiplog_broker.storage.names import TopicPartition

logger = logging.getLogger(__name__)

NO_EPOCH = -1


class PartitionCounters:
    """What went in and out since the broker started."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0


class Partition:
    """A replica as its clients see it. Everything runs on the event loop's thread."""

    __slots__ = (
        "_clock",
        "_fetch_waiters",
        "_offline",
        "_produce_waiters",
        "_sync",
        "_sync_latency",
        "counters",
        "fetchers",
        "has_min_isr",
        "high_watermark",
        "leader_epoch",
        "log",
        "name",
    )

    def __init__(
        self,
        name: TopicPartition,
        log: PartitionLog,
        fetch_waiters: FetchWaiters,
        clock: Clock,
        sync_latency: Histogram,
    ) -> None:
        self.name = name
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.high_watermark = log.log_start_offset
        self.has_min_isr = True
        """Whether enough in-sync replicas live for acks=all to mean what it says."""
        self.fetchers: dict[FetchWaiter, None] = {}
        self._fetch_waiters = fetch_waiters
        self._produce_waiters = ProduceWaiters()
        self._clock = clock
        self._sync_latency = sync_latency
        self._sync: asyncio.Task[None] | None = None
        self._offline = ""
        self.counters = PartitionCounters()

    @property
    def is_leader(self) -> bool:
        """Whether clients may read and write here."""
        return self.leader_epoch != NO_EPOCH

    def lead(self, leader_epoch: int) -> None:
        """Begin or continue a reign; what the log holds is made safe before it is shown."""
        if leader_epoch == self.leader_epoch:
            return
        self.leader_epoch = leader_epoch
        self.log.begin_epoch(leader_epoch)
        self._appended()

    def configure(self, config: LogConfig) -> None:
        """Obey these settings from now on; a stricter durability makes a sync due."""
        self.log.configure(config)
        if self.is_leader and not self._offline:
            self._appended()

    def resign(self) -> None:
        """Stop serving: whoever waits is told to look for the leader elsewhere."""
        self.leader_epoch = NO_EPOCH
        self._produce_waiters.fail(ErrorCode.not_leader_or_follower)
        self._wake_fetchers()

    def go_offline(self, why: str) -> None:
        """The disk failed: nothing is acknowledged or read here until the broker restarts."""
        if not self._offline:
            self._offline = why
            self._produce_waiters.fail(ErrorCode.kafka_storage_error)
            self._wake_fetchers()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare what the client believes with what is (KIP-320); -1 believes nothing.

        Raises `PartitionError`.
        """
        if not self.is_leader:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        if self._offline:
            raise PartitionError(ErrorCode.kafka_storage_error, self._offline)
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise PartitionError(ErrorCode.fenced_leader_epoch)
        raise PartitionError(ErrorCode.unknown_leader_epoch)

    def append(self, records: memoryview, now_ms: int, *, for_all: bool = False) -> AppendResult:
        """Append a producer's batch; `for_all` says that it asks for acks=all.

        Raises `PartitionError`, `RecordsError`, `StorageError`.
        """
        self.check_epoch(NO_EPOCH)
        if for_all and not self.has_min_isr:
            raise PartitionError(ErrorCode.not_enough_replicas)
        appended = self.log.append_as_leader(records, self.leader_epoch, now_ms)
        if not appended.duplicate:
            self.counters.bytes_in += len(records)
            self.counters.records_in += appended.last_offset - appended.base_offset + 1
            self._appended()
        return appended

    @property
    def waiting_produces(self) -> int:
        """Batches whose producers wait for their safety."""
        return len(self._produce_waiters)

    def when_safe(self, offset: int, settled: Settled) -> bool:
        """Whether the high watermark is at `offset`; if not, `settled` is called when it is."""
        if self.high_watermark >= offset:
            return True
        self._produce_waiters.add(offset, settled)
        return False

    def read(self, offset: int, max_bytes: int, *, min_one: bool) -> LogSlice | None:
        """Batches from `offset` up to the high watermark; None where there are none yet.

        Raises `OffsetOutOfRangeError` before the log start and after the log end.
        """
        if self.high_watermark <= offset <= self.log.end_offset:
            return None
        return self.log.read(offset, max_bytes, self.high_watermark, min_one=min_one)

    async def delete_records_before(self, offset: int, now_ms: int) -> int:
        """Raise the log start offset, at most to the high watermark; returns where it is then.

        Raises `PartitionError`.
        """
        if not 0 <= offset <= self.high_watermark:
            raise PartitionError(ErrorCode.offset_out_of_range)
        return await self.log.delete_records_before(offset, now_ms)

    async def quiesce(self) -> None:
        """Stop serving and let a running sync end: nothing touches the log after it."""
        self.resign()
        if self._sync is not None:
            await asyncio.wait([self._sync])

    def _appended(self) -> None:
        safe_offset = self.log.countable_end_offset
        self._advance(safe_offset)
        if self._sync is None and safe_offset < self.log.end_offset:
            self._sync = asyncio.get_running_loop().create_task(self._make_durable())

    async def _make_durable(self) -> None:
        """Sync until nothing new has come; what arrives during one sync shares the next."""
        try:
            while self.log.countable_end_offset < self.log.end_offset:
                began_s = self._clock.monotonic_s()
                await self.log.make_durable(self.log.end_offset)
                self._sync_latency.observe(self._clock.monotonic_s() - began_s)
                self._advance(self.log.countable_end_offset)
        except Exception as failed:
            # Whatever it was, nothing after it may be acknowledged.
            logger.exception("sync_failed", extra={"partition": str(self.name)})
            self.go_offline(str(failed))
        finally:
            self._sync = None

    def _advance(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self._produce_waiters.advance(high_watermark)
            self._wake_fetchers()

    def _wake_fetchers(self) -> None:
        self._fetch_waiters.wake(self.fetchers)
