"""The groups this broker coordinates: it leads their partitions of `__consumer_offsets`."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from uuid import UUID

from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.room import Room
from chiplog_broker.coordinator.shard import Shard, Surroundings
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.replicas import Replicas
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
"""Of a client's name in the ids of its members: they are remembered, and repeated often."""


class Coordinator:
    """The shards of one broker, kept equal to what it leads."""

    def __init__(
        self,
        cluster: ClusterView,
        replicas: Replicas,
        clock: Clock,
        rng: Rng,
        config: Mapping[str, str],
    ) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._clock = clock
        self._rng = rng
        self._config = config
        self._shards: dict[int, Shard] = {}
        self._loading: dict[Shard, asyncio.Task[None]] = {}
        self._expiring: asyncio.Task[None] | None = None
        self._began_ms = clock.now_ms() - self.ticks_ms()
        self._around = Surroundings(
            limits=self._limits,
            new_member_id=self._new_member_id,
            now_ms=self.now_ms,
            ticks_ms=self.ticks_ms,
            to_wall_ms=self._to_wall_ms,
            room=Room(lambda: list(self._shards.values()), self.ticks_ms),
        )
        self._is_closed = False

    def start(self) -> None:
        """Look for offsets that have expired, from time to time."""
        self._expiring = asyncio.get_running_loop().create_task(self._expire_again_and_again())

    def now_ms(self) -> int:
        """The wall clock as it is now: what is stored must not have the error of the start."""
        return self._clock.now_ms()

    def ticks_ms(self) -> int:
        """The time of sessions, which the wall clock must not end: it never goes back or jumps."""
        return int(self._clock.monotonic_s() * 1000)

    def _to_wall_ms(self, ticks_ms: int) -> int:
        return ticks_ms + self.now_ms() - self.ticks_ms()

    def _expiry_ms(self) -> int:
        """The time by which offsets expire: the earlier one of two clocks.

        A wall clock that somebody sets a month ahead must cost nobody's offsets, so it counts
        only as far as that time has passed here. Nor does the time of the start count where it
        was too late. What this delays goes a little later.
        """
        return min(self.now_ms(), self._began_ms + self.ticks_ms())

    def topic_changed(self, topic: str) -> None:
        """The replicas of a topic may lead now, or may not any more."""
        if topic == CONSUMER_OFFSETS and not self._is_closed:
            self.refresh()

    def refresh(self) -> None:
        """Take up what is led here, give up what is not."""
        for index, shard in list(self._shards.items()):
            if self._replicas.get(CONSUMER_OFFSETS, index) is not shard.partition or (
                not shard.is_current
            ):
                del self._shards[index]
                self._give_up(shard)
        for partition in self._replicas.of_topic(CONSUMER_OFFSETS):
            index = partition.name.partition
            if partition.is_leader and index not in self._shards:
                shard = self._shards[index] = Shard(partition, self._around)
                task = asyncio.get_running_loop().create_task(shard.load())
                self._loading[shard] = task
                task.add_done_callback(partial(self._loaded, shard))

    def _loaded(self, shard: Shard, _task: asyncio.Task[None]) -> None:
        del self._loading[shard]

    def topic_deleted(self, topic_id: UUID) -> None:
        """Free what was committed for it; it counts for no topic of that name any more anyway."""
        for shard in self:
            if shard.is_serving:
                shard.forget_topic(topic_id)

    def partition_of(self, group_id: str) -> int:
        """Where a group belongs. Raises `GroupError` before there is such a place."""
        topic = self._cluster.topic(CONSUMER_OFFSETS)
        if topic is None:
            raise GroupError(
                ErrorCode.coordinator_not_available,
                "the topic __consumer_offsets does not exist yet",
            )
        return partition_of(group_id, len(topic.partitions))

    def shard(self, group_id: str) -> Shard:
        """The one that coordinates this group, if it may now. Raises `GroupError`."""
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            raise GroupError(ErrorCode.not_coordinator)
        shard.check()
        return shard

    def __iter__(self) -> Iterator[Shard]:
        """All shards, loaded or not."""
        return iter(list(self._shards.values()))

    async def expire_offsets(self) -> None:
        """Forget what groups without members committed long ago."""
        retention_ms = setting(self._config, keys.OFFSETS_RETENTION_MINUTES) * 60_000
        for shard in self:
            if shard.is_serving:
                shard.expire(self._expiry_ms(), retention_ms)
            await asyncio.sleep(0)

    async def _expire_again_and_again(self) -> None:
        while True:
            interval_ms = setting(self._config, keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS)
            await self._clock.sleep(interval_ms / 1000)
            try:
                await self.expire_offsets()
            except Exception:
                logger.exception("offsets_not_expired")

    async def close(self) -> None:
        """Answer all who wait, and nobody any more; may be called again. Partitions still lead."""
        self._is_closed = True
        loading = list(self._loading.values())
        for shard in self:
            self._give_up(shard)
        self._shards.clear()
        if self._expiring is not None:
            self._expiring.cancel()
        await asyncio.gather(*loading, *filter(None, [self._expiring]), return_exceptions=True)

    def _give_up(self, shard: Shard) -> None:
        if task := self._loading.get(shard):
            task.cancel()
        shard.give_up()

    def _limits(self) -> Limits:
        config = self._config
        return Limits(
            min_session_timeout_ms=setting(config, keys.GROUP_MIN_SESSION_TIMEOUT_MS),
            max_session_timeout_ms=setting(config, keys.GROUP_MAX_SESSION_TIMEOUT_MS),
            max_size=setting(config, keys.GROUP_MAX_SIZE),
            initial_rebalance_delay_ms=setting(config, keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        )

    def _new_member_id(self, name: str) -> str:
        """As Kafka makes them: a name that people know, and what makes it the only one."""
        return (
            f"{name[:MEMBER_NAME_LENGTH]}-{UUID(bytes=self._rng.token(MEMBER_ID_BYTES), version=4)}"
        )
