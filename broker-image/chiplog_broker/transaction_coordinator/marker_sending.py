"""Sends the markers of transactions to the leaders of their partitions, until all are written.

A marker is sent again, with growing delays, as long as its partition has no leader, the leader
cannot be reached, or it refuses the marker for a reason that passes. A marker for a topic that does
not exist any more is not needed. Each other broker gets one request at a time, with the markers of
many transactions.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.peers.kept import KeptConnections
from chiplog_broker.ports.clock import Clock
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_broker.transaction_coordinator.markers import UnwrittenMarkers
from chiplog_core.groups.at import At, by_topic
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

MAX_MARKERS: Final = 1_000
"""Markers in one request."""
ANSWER_TIMEOUT_S: Final = 15.0
"""The leaders wait for their high watermarks before they answer, but not as long as this."""
FIRST_RETRY_S: Final = 0.02
MAX_RETRY_S: Final = 1.0
ABSENT_S: Final = 3.0
"""A topic that is unknown for this time was deleted. A broker that became coordinator a moment ago
may learn of a new topic a little later."""
LOST_S: Final = 60.0
"""As `ABSENT_S`, for a topic of which only the metadata is missing: the operator makes it again
from what the brokers report."""

ENDED: Final = frozenset({ErrorCode.none, ErrorCode.invalid_producer_epoch})
"""Answers after which the marker needs no more sending. The partition has seen a newer epoch of the
producer, which it got after this transaction was complete: the marker was written earlier."""
DEPOSED: Final = frozenset({ErrorCode.transaction_coordinator_fenced})
"""Another broker coordinates the transaction, and has sent markers already."""


class _Entry:
    """One marker that is not written yet."""

    __slots__ = ("absent_since_s", "at", "attempts", "due_s", "markers")

    def __init__(self, markers: UnwrittenMarkers, at: At) -> None:
        self.markers = markers
        self.at = at
        self.attempts = 0
        self.due_s = 0.0
        """When it is sent again, by the monotonic clock."""
        self.absent_since_s: float | None = None
        """Since when its topic is unknown; None if it is known."""


class MarkerSender:
    """Sends markers to the leaders on this broker and on others."""

    def __init__(
        self, cluster: ClusterView, writer: MarkerWriter, dialer: Dialer | None, clock: Clock
    ) -> None:
        """Without a `dialer` all partitions are led here."""
        self._cluster = cluster
        self._writer = writer
        self._clock = clock
        self._connections = None if dialer is None else KeptConnections(cluster, dialer)
        self._queues: dict[int, deque[_Entry]] = {}
        """Broker id -> the markers that are sent to it next."""
        self._sending: dict[int, asyncio.Task[None]] = {}
        """Broker id -> the task that sends its queue; only while there is something to send."""
        self._waiting: list[_Entry] = []
        """Markers that are sent again later."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def unwritten(self) -> int:
        """Markers that are queued or are sent again later; those in flight are not counted."""
        return len(self._waiting) + sum(map(len, self._queues.values()))

    def send(self, markers: UnwrittenMarkers) -> None:
        """Have these markers written. Nothing is sent after their `give_up`."""
        for at in sorted(markers.partitions):
            self._route(_Entry(markers, at))
        markers.check_complete()

    async def close(self) -> None:
        """Send nothing more. May be called twice."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self._queues.clear()
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        if self._connections is not None:
            self._connections.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _route(self, entry: _Entry) -> None:
        """Write a marker here, queue it for another broker, or wait for its partition's leader."""
        if entry.markers.is_over or self._is_closed:
            return
        leader_id = self._leader_of(entry)
        if leader_id is None:
            return
        if leader_id == self._cluster.broker_id:
            self._writer.write(
                entry.at, entry.markers.marker, lambda code: self._answered(entry, code)
            )
        elif leader_id in self._cluster.brokers and self._connections is not None:
            self._queues.setdefault(leader_id, deque()).append(entry)
            if leader_id not in self._sending:
                task = asyncio.get_running_loop().create_task(self._send_queue(leader_id))
                self._sending[leader_id] = task
        else:
            self._send_later(entry)

    def _leader_of(self, entry: _Entry) -> int | None:
        """The broker id of the partition's leader, -1 if it has none. None if the partition does
        not exist: then the marker is dealt with."""
        topic, index = entry.at
        view = self._cluster.topic(topic)
        if view is not None and index < len(view.partitions):
            entry.absent_since_s = None
            return view.partitions[index].leader_id
        now_s = self._clock.monotonic_s()
        if entry.absent_since_s is None or self._cluster.announced_topic_id(topic) is not None:
            entry.absent_since_s = now_s
        limit_s = LOST_S if self._cluster.is_lost(topic) else ABSENT_S
        if now_s - entry.absent_since_s < limit_s:
            self._send_later(entry)
            return None
        extra = {"partition": str(entry.at), "producer_id": entry.markers.marker.producer_id}
        logger.info("marker_skipped", extra=extra)
        entry.markers.written(entry.at)
        return None

    def _answered(self, entry: _Entry, code: ErrorCode) -> None:
        """A leader has written the marker, or refused it with this code."""
        if entry.markers.is_over:
            return
        if code in ENDED:
            entry.markers.written(entry.at)
            return
        if code in DEPOSED:
            # The shard of these transactions ends when this broker learns of the new leader.
            extra = {"partition": str(entry.at), "producer_id": entry.markers.marker.producer_id}
            logger.warning("marker_fenced", extra=extra)
        self._send_later(entry)

    def _send_later(self, entry: _Entry) -> None:
        """Send a marker again after a delay, which doubles with each attempt."""
        delay_s = min(FIRST_RETRY_S * 2 ** min(entry.attempts, 10), MAX_RETRY_S)
        entry.attempts += 1
        entry.due_s = self._clock.monotonic_s() + delay_s
        self._waiting.append(entry)
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(FIRST_RETRY_S, self._send_due)

    def _send_due(self) -> None:
        """Send the markers whose delay has passed."""
        self._timer = None
        now_s = self._clock.monotonic_s()
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            if entry.due_s <= now_s:
                self._route(entry)
            elif not entry.markers.is_over:
                self._waiting.append(entry)
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FIRST_RETRY_S, self._send_due)

    async def _send_queue(self, broker_id: int) -> None:
        """Send what is queued for a broker, one request after the other."""
        try:
            while queue := self._queues.get(broker_id):
                count = min(len(queue), MAX_MARKERS)
                taken = [queue.popleft() for _ in range(count)]
                if entries := [entry for entry in taken if not entry.markers.is_over]:
                    await self._send(broker_id, entries)
        finally:
            del self._sending[broker_id]
            self._queues.pop(broker_id, None)

    async def _send(self, broker_id: int, entries: list[_Entry]) -> None:
        """Send one request with these markers, and take its answer."""
        codes: dict[tuple[int, At], ErrorCode] = {}
        try:
            codes = await self._request(broker_id, entries)
        except PeerError as failed:
            extra = {"broker": broker_id, "markers": len(entries), "reason": str(failed)}
            logger.debug("markers_not_sent", extra=extra)
        except Exception:
            # After any error the markers are sent again: without them consumers wait for ever.
            logger.exception("markers_not_sent", extra={"broker": broker_id})
        for entry in entries:
            # Without an answer for this marker it may or may not be written: it is sent again.
            key = (entry.markers.marker.producer_id, entry.at)
            self._answered(entry, codes.get(key, ErrorCode.request_timed_out))

    async def _request(
        self, broker_id: int, entries: Sequence[_Entry]
    ) -> dict[tuple[int, At], ErrorCode]:
        """Send these markers; the codes by producer id and partition. Raises `PeerError`."""
        assert self._connections is not None, "without a dialer nothing is queued"
        connection = await self._connections.to_broker(broker_id)
        version = connection.common_version(ApiKey.WRITE_TXN_MARKERS)
        answer = await connection.send_request(
            ApiKey.WRITE_TXN_MARKERS,
            version,
            markers_request(version, [(entry.markers, entry.at) for entry in entries]),
            ANSWER_TIMEOUT_S,
        )
        return {
            (result.producer_id, At(topic.name, partition.partition_index)): ErrorCode(
                partition.error_code
            )
            for result in answer.markers
            for topic in result.topics
            for partition in topic.partitions
        }


def markers_request(version: int, wanted: Iterable[tuple[UnwrittenMarkers, At]]) -> Any:
    """A WriteTxnMarkers request for these markers; one element for each transaction."""
    from chiplog_wire.protocol.codec import schema  # noqa: PLC0415 - slow to import

    request_class = schema.request_class(ApiKey.WRITE_TXN_MARKERS, version)
    marker_class = schema.element(request_class, "markers")
    topic_class = schema.element(marker_class, "topics")
    by_transaction: dict[int, tuple[UnwrittenMarkers, list[At]]] = {}
    for markers, at in wanted:
        by_transaction.setdefault(id(markers), (markers, []))[1].append(at)
    elements = []
    for markers, partitions in by_transaction.values():
        marker = markers.marker
        topics = tuple(
            topic_class(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions)
        )
        values = {
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "transaction_result": marker.is_commit,
            "topics": topics,
            "coordinator_epoch": marker.coordinator_epoch,
            "transaction_version": marker.transaction_version,
        }
        known = schema.shapes(marker_class)
        elements.append(
            marker_class(**{name: value for name, value in values.items() if name in known})
        )
    return request_class(markers=tuple(elements))
