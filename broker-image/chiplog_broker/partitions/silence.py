"""Looks at the clock for all partitions led here, and acts on who is isolated.

While the API server answers, a look costs one comparison. Otherwise each partition is judged by
its own followers. What a look finds is undone at once, without another look, when somebody is
heard; what clients are told of topics follows once a turn of the event loop.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from chiplog_broker.metadata.port import Authority
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.isolation import Heard, is_isolated
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.5
STALL_S: Final = 2.0
"""A look that comes later than this: the process stood still, and heard nobody for that reason."""


class SilenceWatch:
    """Which of the partitions led here are isolated."""

    def __init__(
        self,
        replicas: Replicas,
        cluster: ClusterView,
        clock: Clock,
        authority: Authority,
        silence_s: Callable[[], float],
    ) -> None:
        """`silence_s` says how long is too long."""
        self._replicas = replicas
        self._cluster = cluster
        self._clock = clock
        self._authority = authority
        self._silence_s = silence_s
        self._looked_s = self._listening_s = clock.monotonic_s()
        self._isolated: dict[Partition, None] = {}
        self._told: set[UUID] = set()
        """Topics of which clients are told less than the map says."""
        self._began_s: float | None = None
        self._is_telling = False

    async def look(self) -> None:
        """Judge anew; to be called every `LOOK_INTERVAL_S`."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s > STALL_S:
            self._listening_s = now_s
        self._looked_s = now_s
        if not self._isolated and now_s - self._authority.heard_s < self._silence_s():
            return
        for partition in self._replicas:
            if self._is_isolated(partition, now_s):
                if not partition.is_isolated:
                    partition.isolate()
                self._isolated[partition] = None
            else:
                self._end(partition)
        # Those that are not here any more, too.
        self._isolated = {one: None for one in self._isolated if one.is_isolated}
        self._tell()

    def _is_isolated(self, partition: Partition, now_s: float) -> bool:
        followers = partition.followers
        if followers is None:
            return False
        heard = Heard(
            waits_for_others=followers.are_waited_for,
            followers_s=followers.heard_s,
            authority_s=self._authority.heard_s,
            reign_s=partition.reign_s,
            listening_s=self._listening_s,
        )
        return is_isolated(heard, now_s, self._silence_s())

    def authority_heard(self) -> None:
        """What the last look found is over: nobody here is isolated."""
        if self._isolated:
            for partition in list(self._isolated):
                self._end(partition)
            self._tell_soon()

    def follower_heard(self, partition: Partition) -> None:
        """What the last look found is over for this partition."""
        self._end(partition)
        self._tell_soon()

    def _end(self, partition: Partition) -> None:
        partition.end_isolation()
        self._isolated.pop(partition, None)

    def _tell_soon(self) -> None:
        if not self._is_telling:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        """Make what clients are told, and the log, fit what is isolated."""
        self._is_telling = False
        by_topic: dict[UUID, set[int]] = defaultdict(set)
        for partition in self._isolated:
            by_topic[partition.log.topic_id].add(partition.name.partition)
        for topic_id in self._told | by_topic.keys():
            view = self._cluster.topic_with_id(topic_id)
            isolated = frozenset(by_topic.get(topic_id, ()))
            if view is not None and view.isolated != isolated:
                self._cluster.put(replace(view, isolated=isolated))
        self._told = set(by_topic)
        self._cluster.send_clients_elsewhere(
            bool(self._isolated)
            and not any(one.is_leader and not one.is_isolated for one in self._replicas)
        )
        self._say()

    def _say(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._isolated and self._began_s is None:
            self._began_s = now_s
            logger.warning("isolated", extra={"partitions": len(self._isolated)})
        elif not self._isolated and self._began_s is not None:
            after_s = round(now_s - self._began_s, 1)
            self._began_s = None
            logger.info("not_isolated_any_more", extra={"after_s": after_s})
