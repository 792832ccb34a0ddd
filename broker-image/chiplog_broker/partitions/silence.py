"""Checks at intervals which leaders here are isolated, and makes clients look for other leaders.

While the API server answers, no leader is isolated, and a check costs one comparison. Otherwise it
depends on the followers of each partition. An isolation ends at once, without another check, when
the API server or a follower makes contact. The metadata that clients get is updated at most once in
an iteration of the event loop.
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
from chiplog_broker.partitions.isolation import LastContact, is_isolated
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.names import TopicPartition

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.5
STALL_S: Final = 2.0
"""If this time passes between two checks, the process was stalled and received nothing."""


class SilenceWatch:
    """Knows which of the partitions led here are isolated."""

    def __init__(
        self,
        replicas: Replicas,
        cluster: ClusterView,
        clock: Clock,
        authority: Authority,
        silence_s: Callable[[], float],
    ) -> None:
        """`authority` has the time of the last answer of the API server. `silence_s` returns how
        many seconds a leader may be without contact."""
        self._replicas = replicas
        self._cluster = cluster
        self._clock = clock
        self._authority = authority
        self._silence_s = silence_s
        # When `check` ran last, and since when it has run without a long pause.
        self._checked_s = self._running_since_s = clock.monotonic_s()
        self._isolated: dict[Partition, None] = {}
        """The partitions led here that are isolated now."""
        self._topics_with_isolated: set[UUID] = set()
        """Topics whose metadata for clients leaves out leaders of the map that are isolated."""
        self._began_s: float | None = None
        """When the first of the present isolations began; None if no leader is isolated."""
        self._publish_is_scheduled = False

    async def check(self) -> None:
        """Check all partitions; to be called every `CHECK_INTERVAL_S`."""
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s > STALL_S:
            self._running_since_s = now_s
        self._checked_s = now_s
        if not self._isolated and now_s - self._authority.answered_s < self._silence_s():
            return  # no leader is isolated, because the API server has answered recently
        for partition in self._replicas:
            if self._is_isolated(partition, now_s):
                if not partition.is_isolated:
                    partition.isolate()
                self._isolated[partition] = None
            else:
                self._end_isolation(partition)
        # This also removes partitions that are not here any more.
        self._isolated = {partition: None for partition in self._isolated if partition.is_isolated}
        self._publish()

    def _is_isolated(self, partition: Partition, now_s: float) -> bool:
        """Whether this partition is led here, has followers and has been without contact."""
        followers = partition.followers
        if followers is None:
            return False
        last = LastContact(
            waits_for_others=followers.are_waited_for,
            followers_s=followers.last_fetch_s,
            authority_s=self._authority.answered_s,
            led_since_s=partition.led_since_s,
            running_since_s=self._running_since_s,
        )
        return is_isolated(last, now_s, self._silence_s())

    def authority_answered(self) -> None:
        """End the isolation of all partitions: the API server answered."""
        if self._isolated:
            for partition in list(self._isolated):
                self._end_isolation(partition)
            self._schedule_publish()

    def follower_fetched(self, name: TopicPartition) -> None:
        """End the isolation of this partition: a follower fetched from it."""
        partition = self._replicas.get(name.topic, name.partition)
        if partition is not None:
            self._end_isolation(partition)
            self._schedule_publish()

    def _end_isolation(self, partition: Partition) -> None:
        """Let the partition accept records again; the caller publishes the change."""
        partition.end_isolation()
        self._isolated.pop(partition, None)

    def _schedule_publish(self) -> None:
        """Publish in the next iteration of the event loop, once for all changes until then."""
        if not self._publish_is_scheduled:
            self._publish_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._publish)

    def _publish(self) -> None:
        """Update the cluster view, which clients get their metadata from, and log the change."""
        self._publish_is_scheduled = False
        by_topic: dict[UUID, set[int]] = defaultdict(set)
        for partition in self._isolated:
            by_topic[partition.log.topic_id].add(partition.name.partition)
        for topic_id in self._topics_with_isolated | by_topic.keys():
            view = self._cluster.topic_with_id(topic_id)
            isolated = frozenset(by_topic.get(topic_id, ()))
            if view is not None and view.isolated != isolated:
                self._cluster.put(replace(view, isolated=isolated))
        self._topics_with_isolated = set(by_topic)
        # Clients should ask other brokers for metadata if no leader here accepts records.
        self._cluster.set_broker_isolated(
            bool(self._isolated)
            and not any(
                partition.is_leader and not partition.is_isolated for partition in self._replicas
            )
        )
        self._log_change()

    def _log_change(self) -> None:
        """Log when the first leader becomes isolated, and when none is isolated any more."""
        now_s = self._clock.monotonic_s()
        if self._isolated and self._began_s is None:
            self._began_s = now_s
            logger.warning("isolated", extra={"partitions": len(self._isolated)})
        elif not self._isolated and self._began_s is not None:
            after_s = round(now_s - self._began_s, 1)
            self._began_s = None
            logger.info("not_isolated_any_more", extra={"after_s": after_s})
