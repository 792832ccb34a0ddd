"""One fetcher for each other broker that leads a partition of which this broker is a follower, and
others for copies from it."""

import asyncio
from collections.abc import Iterator, Mapping

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.following import LANES, Following
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.rng import Rng
from chiplog_broker.replication.fetcher import FetcherParts, LeaderFetcher
from chiplog_broker.replication.plan import FetchLimits
from chiplog_broker.settings import setting
from chiplog_core.config import broker_keys as keys


class ReplicaFetching:
    """The follower side of one broker: the `Fetchers` of its replicas."""

    def __init__(
        self,
        cluster: ClusterView,
        dialer: Dialer,
        clock: Clock,
        rng: Rng,
        config: Mapping[str, str],
        throttle: ReplicationThrottle,
    ) -> None:
        self._config = config
        self._parts = FetcherParts(
            cluster=cluster,
            dialer=dialer,
            clock=clock,
            rng=rng,
            limits=self._limits,
            throttle=throttle,
            moved=self._moved,
        )
        self._fetchers: dict[tuple[int, int], LeaderFetcher] = {}
        """By leader and lane."""
        self._ending: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Following]:
        """All partitions that are followed."""
        return (following for fetcher in self._fetchers.values() for following in fetcher)

    @property
    def leaders(self) -> frozenset[int]:
        """The brokers that are fetched from."""
        return frozenset(leader_id for leader_id, _ in self._fetchers)

    @property
    def max_lag(self) -> int:
        """The lag in records of the partition that is the furthest behind."""
        return max((following.lag for following in self), default=0)

    def begin(self, following: Following) -> None:
        """Fetch this partition from its leader from now on."""
        key = following.leader_id, following.lane
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = LeaderFetcher(
                following.leader_id, self._parts, following.lane
            )
        fetcher.put(following)

    def end(self, following: Following) -> None:
        """Stop fetching this partition in this leader epoch. Call `following.stop`, too, which
        discards answers that still arrive."""
        for lane in LANES:  # it may be about to move to another one
            fetcher = self._fetchers.get((following.leader_id, lane))
            if fetcher is not None:
                self._drop(fetcher, following)

    def _moved(self, fetcher: LeaderFetcher, following: Following) -> None:
        """Fetch a partition with another fetcher of its leader from now on."""
        self._drop(fetcher, following)
        self.begin(following)

    def _drop(self, fetcher: LeaderFetcher, following: Following) -> None:
        """Take a partition from a fetcher, which ends with its last one."""
        fetcher.drop(following)
        if not len(fetcher):
            del self._fetchers[following.leader_id, fetcher.lane]
            self._ending.add(fetcher.end())
            self._ending = {task for task in self._ending if not task.done()}

    async def close(self) -> None:
        """Stop all fetchers. Each `Following` is stopped with its partition."""
        self._ending |= {fetcher.end() for fetcher in self._fetchers.values()}
        self._fetchers.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    def _limits(self) -> FetchLimits:
        """The limits of fetch requests, as they are configured now."""
        return FetchLimits(
            wait_ms=setting(self._config, keys.REPLICA_FETCH_WAIT_MAX_MS),
            max_bytes=setting(self._config, keys.REPLICA_FETCH_RESPONSE_MAX_BYTES),
            partition_max_bytes=setting(self._config, keys.REPLICA_FETCH_MAX_BYTES),
        )
