"""The transactions that this broker coordinates: it leads their partitions of
`__transaction_state`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

from chiplog_broker.coordinator.led_shards import LedShards
from chiplog_broker.event_loop import SLICE_S
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock
from chiplog_broker.settings import setting
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transaction_coordinator.marker_sending import MarkerSender
from chiplog_broker.transaction_coordinator.producer_ids import ProducerIds
from chiplog_broker.transaction_coordinator.shard import TransactionContext, TransactionShard
from chiplog_broker.transaction_coordinator.transaction_memory import TransactionMemory
from chiplog_broker.transactions.figures import (
    TransactionCounters,
    TransactionFigures,
    figures,
)
from chiplog_core.config import transaction_keys as keys
from chiplog_core.config.key import ConfigKey
from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import TRANSACTION_STATE
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps

logger = logging.getLogger(__name__)


class TransactionCoordinator:
    """The shards of one broker: one for each partition of `__transaction_state` that it leads."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        clock: Clock,
        sender: MarkerSender,
        config: Mapping[str, str],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._config = config
        self._sender = sender
        self.producer_ids = ProducerIds(cluster)
        """For transactional producers, and for those that are only idempotent."""
        self.counters = TransactionCounters()
        self._led = LedShards(
            TRANSACTION_STATE,
            replicas,
            lambda partition: TransactionShard(partition, self._context),
        )
        self._context = TransactionContext(
            now_ms=clock.now_ms,
            ticks_ms=self._ticks_ms,
            new_producer_id=self.producer_ids.draw,
            max_timeout_ms=lambda: setting(config, keys.TRANSACTION_MAX_TIMEOUT_MS),
            send_markers=sender.send,
            counters=self.counters,
            memory=TransactionMemory(lambda: self._led, self._ticks_ms),
        )
        self._ticks_began_ms = clock.now_ms() - self._ticks_ms()
        """When `_ticks_ms` was 0, by the wall clock as it was at the start."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks that abort transactions after their timeout, and forget ids that are not
        used."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(
                self._repeat(keys.TRANSACTION_ABORT_INTERVAL_MS, self.abort_timed_out)
            ),
            loop.create_task(self._repeat(keys.TRANSACTIONAL_ID_EXPIRY_INTERVAL_MS, self.expire)),
        ]

    def _ticks_ms(self) -> int:
        """The present time in monotonic milliseconds."""
        return int(self._clock.monotonic_s() * 1000)

    def topic_changed(self, topic: str) -> None:
        """The leadership of the topic's replicas here may have changed. Only that of
        `__transaction_state` matters."""
        if topic == TRANSACTION_STATE:
            self._led.refresh()

    def partition_of(self, transactional_id: str) -> int:
        """The number of the partition of `__transaction_state` that a transactional id belongs to.
        Raises `TransactionError` as long as this topic does not exist."""
        topic = self._cluster.topic(TRANSACTION_STATE)
        if topic is None:
            raise TransactionError(
                ErrorCode.coordinator_not_available,
                f"the topic {TRANSACTION_STATE} does not exist yet",
            )
        return partition_of(transactional_id, len(topic.partitions))

    def shard(self, transactional_id: str) -> TransactionShard:
        """The shard that coordinates this transactional id. Raises `TransactionError` if this
        broker does not coordinate it, or not yet."""
        shard = self._led.by_index.get(self.partition_of(transactional_id))
        if shard is None:
            raise TransactionError(ErrorCode.not_coordinator)
        shard.check()
        return shard

    def __iter__(self) -> Iterator[TransactionShard]:
        """All shards, loaded or not."""
        return iter(self._led)

    async def abort_timed_out(self) -> None:
        """Abort the transactions coordinated here that are open for longer than their timeout."""
        for shard in self:
            if shard.is_serving:
                await self._in_slices(shard.abort_timed_out(self._clock.now_ms()))

    async def expire(self) -> None:
        """Forget the transactional ids coordinated here that were not used for long.

        The earlier one of two clocks counts: if somebody sets the wall clock a month ahead, no id
        may be lost, so time counts only as far as it has passed in this process.
        """
        now_ms = min(self._clock.now_ms(), self._ticks_began_ms + self._ticks_ms())
        for shard in self:
            if shard.is_serving:
                expiration_ms = setting(self._config, keys.TRANSACTIONAL_ID_EXPIRATION_MS)
                await self._in_slices(shard.expire(now_ms, expiration_ms))

    async def _in_slices(self, steps: Steps[None]) -> None:
        """Run these steps, and other tasks in between: there may be thousands, each with a
        record."""
        until_s = self._clock.monotonic_s() + SLICE_S
        for _ in steps:
            if self._clock.monotonic_s() >= until_s:
                await asyncio.sleep(0)
                until_s = self._clock.monotonic_s() + SLICE_S

    def figures(self) -> TransactionFigures:
        """What there is now of transactions that this broker coordinates."""
        serving = [shard for shard in self if shard.is_serving]
        return figures(
            ids=sum(shard.id_count for shard in serving),
            unfinished=(stored for shard in serving for _, stored in shard.unfinished()),
            unwritten_markers=sum(shard.unwritten_markers for shard in serving),
            now_ms=self._clock.now_ms(),
        )

    async def _repeat(self, interval: ConfigKey[int], work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` in this interval, until cancelled."""
        while True:
            await self._clock.sleep(setting(self._config, interval) / 1000)
            try:
                await work()
            except Exception:
                logger.exception("transactions_not_maintained")

    async def close(self) -> None:
        """Refuse new requests, and send no more markers. May be called twice. This broker continues
        to lead the partitions."""
        await self._led.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sender.close()
