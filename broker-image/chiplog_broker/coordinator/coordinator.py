"""The groups that this broker coordinates: it leads their partitions of `__consumer_offsets`."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from uuid import UUID

from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.group_memory import GroupMemory
from chiplog_broker.coordinator.led_shards import LedShards
from chiplog_broker.coordinator.shard import Shard, ShardContext
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.rng import Rng
from chiplog_broker.settings import setting
from chiplog_core.config import broker_keys as keys
from chiplog_core.groups.limits import Limits
from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import CONSUMER_OFFSETS
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

MEMBER_ID_BYTES = 16
MEMBER_NAME_LENGTH = 255
"""Characters of a client id in a member id: member ids are kept in memory and sent often."""


class Coordinator:
    """The shards of one broker: one for each partition of `__consumer_offsets` that it leads."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        clock: Clock,
        rng: Rng,
        config: Mapping[str, str],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._rng = rng
        self._config = config
        self._led = LedShards(
            CONSUMER_OFFSETS, replicas, lambda partition: Shard(partition, self._context)
        )
        self._shards = self._led.by_index
        """By the number of the partition of `__consumer_offsets`."""
        self._expiring: asyncio.Task[None] | None = None
        self._ticks_began_ms = clock.now_ms() - self.ticks_ms()
        """When `ticks_ms` was 0, by the wall clock as it was at the start."""
        self._context = ShardContext(
            limits=self._limits,
            new_member_id=self._new_member_id,
            now_ms=self.now_ms,
            ticks_ms=self.ticks_ms,
            to_wall_ms=self._to_wall_ms,
            memory=GroupMemory(lambda: list(self._shards.values()), self.ticks_ms),
        )

    def start(self) -> None:
        """Start the task that deletes expired offsets."""
        self._expiring = asyncio.get_running_loop().create_task(self._expire_periodically())

    def now_ms(self) -> int:
        """The present wall-clock time, for stored timestamps."""
        return self._clock.now_ms()

    def ticks_ms(self) -> int:
        """The present time in monotonic milliseconds, for the sessions of members: a change of the
        wall clock must not end them."""
        return int(self._clock.monotonic_s() * 1000)

    def _to_wall_ms(self, ticks_ms: int) -> int:
        """Convert a time of `ticks_ms` into one of `now_ms`."""
        return ticks_ms + self.now_ms() - self.ticks_ms()

    def _expiry_ms(self) -> int:
        """The present time for the expiry of offsets: the earlier one of two clocks.

        If somebody sets the wall clock a month ahead, no offsets may be lost, so time counts only
        as far as it has passed in this process. If the wall clock was ahead at the start and is
        corrected, the corrected time counts. This may delay expiry a little.
        """
        return min(self.now_ms(), self._ticks_began_ms + self.ticks_ms())

    def topic_changed(self, topic: str) -> None:
        """The leadership of the topic's replicas here may have changed. Only that of
        `__consumer_offsets` matters."""
        if topic == CONSUMER_OFFSETS:
            self.refresh()

    def refresh(self) -> None:
        """End the shards of partitions that this broker does not lead any more, or in a new leader
        epoch; start and load shards for the partitions that it leads."""
        self._led.refresh()

    def topic_deleted(self, topic_id: UUID) -> None:
        """Delete offsets that were committed for this topic id."""
        for shard in self:
            if shard.is_serving:
                shard.forget_topic(topic_id)

    def partition_of(self, group_id: str) -> int:
        """The number of the partition of `__consumer_offsets` that a group belongs to. Raises
        `GroupError` as long as this topic does not exist."""
        topic = self._cluster.topic(CONSUMER_OFFSETS)
        if topic is None:
            raise GroupError(
                ErrorCode.coordinator_not_available,
                "the topic __consumer_offsets does not exist yet",
            )
        return partition_of(group_id, len(topic.partitions))

    def shard(self, group_id: str) -> Shard:
        """The shard that coordinates this group. Raises `GroupError` if this broker does not
        coordinate it, or not yet."""
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            raise GroupError(ErrorCode.not_coordinator)
        shard.check()
        return shard

    def append_marker(self, index: int, marker: Marker, respond: OnSafe) -> None:
        """End a producer's transaction in this partition of `__consumer_offsets`. Calls `respond`
        with `none` once the marker is below the high watermark, or with an error."""
        shard = self._shards.get(index)
        code = ErrorCode.not_leader_or_follower if shard is None else shard.refusal()[0]
        if shard is None or code is not ErrorCode.none:
            respond(code)
        else:
            shard.append_marker(marker, respond)

    def __iter__(self) -> Iterator[Shard]:
        """All shards, loaded or not."""
        return iter(self._led)

    async def expire_offsets(self) -> None:
        """Delete the expired offsets of all groups coordinated here."""
        retention_ms = setting(self._config, keys.OFFSETS_RETENTION_MINUTES) * 60_000
        for shard in self:
            if shard.is_serving:
                shard.expire(self._expiry_ms(), retention_ms)
            await asyncio.sleep(0)  # other tasks run between two shards

    async def _expire_periodically(self) -> None:
        """Delete expired offsets every `offsets.retention.check.interval.ms`, until cancelled."""
        while True:
            interval_ms = setting(self._config, keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS)
            await self._clock.sleep(interval_ms / 1000)
            try:
                await self.expire_offsets()
            except Exception:
                logger.exception("offsets_not_expired")

    async def close(self) -> None:
        """Answer all waiting requests with an error, and refuse new ones. May be called twice. This
        broker continues to lead the partitions."""
        await self._led.close()
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.gather(self._expiring, return_exceptions=True)

    def _limits(self) -> Limits:
        """The limits of groups, as they are configured now."""
        config = self._config
        return Limits(
            min_session_timeout_ms=setting(config, keys.GROUP_MIN_SESSION_TIMEOUT_MS),
            max_session_timeout_ms=setting(config, keys.GROUP_MAX_SESSION_TIMEOUT_MS),
            max_size=setting(config, keys.GROUP_MAX_SIZE),
            initial_rebalance_delay_ms=setting(config, keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        )

    def _new_member_id(self, name: str) -> str:
        """A member id in Kafka's form: the client id and a random UUID."""
        return (
            f"{name[:MEMBER_NAME_LENGTH]}-{UUID(bytes=self._rng.token(MEMBER_ID_BYTES), version=4)}"
        )
