"""Fetch: read at once; wait where there is too little to answer with.

Answers obey the request's size in Kafka's way: the first batch is sent even where it is
larger than allowed, or its reader could never get past it. Fetch sessions are declined
(session id 0), which every client accepts; who comes back with one all the same is told
that it is not known, and begins anew.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from chiplog_broker.handlers.call import Answer, Call
from chiplog_broker.handlers.leaders import LARGEST_CONSUMER_ID, Leaders
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from chiplog_broker.server.metrics import RequestMetrics

# A fetch outside a session, or one that would begin or end one: all ask for everything.
FULL_FETCH_EPOCHS = (-1, 0)
# While a fetch waits its connection is not read, so nobody would notice that it is gone.
LONGEST_WAIT_S = 60.0
# As much as clients that do not take their answers may hold in memory, all together.
UNSENT_BYTES = 256 * 2**20
OK = int(ErrorCode.none)
UNKNOWN_OFFSET = -1


class FetchHandler:
    """Serves consumers from the partitions that this broker leads."""

    def __init__(
        self, cluster: ClusterView, leaders: Leaders, metrics: RequestMetrics, max_bytes: int
    ) -> None:
        self._cluster = cluster
        self._leaders = leaders
        self._metrics = metrics
        self._max_bytes = max_bytes

    def __call__(self, call: Call[FetchRequest]) -> FetchResponse | asyncio.Future[Answer]:
        request = call.message
        if request.replica_id > LARGEST_CONSUMER_ID and not call.peer.is_internal:
            # A client that poses as a broker would hold records back or vouch for them.
            return FetchResponse([refused_topic(topic) for topic in request.topics])
        if request.session_epoch not in FULL_FETCH_EPOCHS:
            return FetchResponse([], error_code=ErrorCode.fetch_session_id_not_found)
        room_bytes = max(UNSENT_BYTES - self._metrics.unsent_bytes, 0)
        max_bytes = min(request.max_bytes, self._max_bytes, room_bytes)
        reading = Reading(request, max_bytes, self._cluster, self._leaders)
        response = reading.attempt()
        if reading.is_enough or request.max_wait_ms <= 0:
            reading.count()
            return response
        return WaitingFetch(call, reading, self._metrics).start()


class Reading:
    """One attempt after another to answer a fetch, each from the beginning."""

    def __init__(
        self, request: FetchRequest, max_bytes: int, cluster: ClusterView, leaders: Leaders
    ) -> None:
        self._request = request
        self._max_bytes = max_bytes
        # More than may be sent cannot be waited for; nor is there anything to wait for
        # where no partition is asked for.
        self._min_bytes = min(request.min_bytes, max_bytes) if request.topics else 0
        self._cluster = cluster
        self._leaders = leaders
        self._found: list[tuple[Partition, int]] = []
        self._bytes = 0
        self._has_more = False
        self._failed = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found what the reader wants, or cannot find more."""
        return self._bytes >= self._min_bytes or self._has_more or self._failed

    def attempt(self) -> FetchResponse:
        """Read every partition as far as the request's size allows."""
        self._bytes = 0
        self._has_more = self._failed = False
        self._found.clear()
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    def count(self) -> None:
        """The last attempt is what is sent."""
        for partition, size_bytes in self._found:
            partition.counters.bytes_out += size_bytes

    def partitions(self) -> Iterator[Partition]:
        """The partitions here that the request reads."""
        for topic in self._request.topics:
            name = self._name(topic) or ""
            for wanted in topic.partitions:
                with suppress(PartitionError):
                    yield self._leaders.get(name, wanted.partition)

    def _name(self, topic: FetchTopic) -> str | None:
        if topic.topic_id is None:
            return topic.name
        view = self._cluster.topic_with_id(topic.topic_id)
        return None if view is None else view.name

    def _topic(self, topic: FetchTopic) -> FetchTopicResponse:
        name = self._name(topic)
        if name is None:
            self._failed = True
            answers = [unreadable(one, ErrorCode.unknown_topic_id) for one in topic.partitions]
        else:
            answers = [self._partition(name, one) for one in topic.partitions]
        return FetchTopicResponse(topic.name, topic.topic_id, answers)

    def _partition(self, topic: str, wanted: FetchPartition) -> FetchPartitionResponse:
        try:
            partition = self._leaders.get(topic, wanted.partition, wanted.current_leader_epoch)
            room_bytes = self._max_bytes - self._bytes
            max_bytes = max(min(wanted.max_bytes, room_bytes), 0)
            first = self._bytes == 0
            records = partition.read(wanted.fetch_offset, max_bytes, min_one=first)
        except (PartitionError, *REFUSALS) as refused:
            return self._refused(wanted, code_of(refused))
        high_watermark = partition.high_watermark
        found = FetchPartitionResponse(
            wanted.partition, OK, high_watermark, high_watermark, partition.log.log_start_offset
        )
        if records is None:
            return found
        # There may be more than an answer holds, or than the rest of a segment.
        self._has_more |= records.next_offset < high_watermark
        if records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        self._found.append((partition, records.size_bytes))
        return found._replace(records=records)

    def _refused(self, wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
        self._failed = True
        return unreadable(wanted, code)


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """An error in the place of records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)


def refused_topic(topic: FetchTopic) -> FetchTopicResponse:
    """What a client that says it is a broker is answered: every version can say it so."""
    code = ErrorCode.cluster_authorization_failed
    answers = [unreadable(one, code) for one in topic.partitions]
    return FetchTopicResponse(topic.name, topic.topic_id, answers)


class WaitingFetch:
    """A fetch that found too little: tries again when one of its partitions changed."""

    def __init__(self, call: Call[FetchRequest], reading: Reading, metrics: RequestMetrics) -> None:
        self._call = call
        self._reading = reading
        self._metrics = metrics
        self._partitions = list(reading.partitions())
        self._future: asyncio.Future[Answer]
        self._timeout: asyncio.TimerHandle

    def start(self) -> asyncio.Future[Answer]:
        """Wait, for as long as the consumer said it would."""
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._leave)
        wait_s = min(self._call.message.max_wait_ms / 1000, LONGEST_WAIT_S)
        self._timeout = loop.call_later(wait_s, self._time_out)
        self._metrics.waiting_fetches += 1
        for partition in self._partitions:
            partition.fetchers[self] = None
        return self._future

    def changed(self) -> None:
        """A partition has more, or can no longer be read here."""
        self._call.answer(self._future, partial(self._attempt, last=False))

    def _time_out(self) -> None:
        self._call.answer(self._future, partial(self._attempt, last=True))

    def _attempt(self, *, last: bool) -> FetchResponse | None:
        response = self._reading.attempt()
        if not (last or self._reading.is_enough):
            return None
        self._reading.count()
        return response

    def _leave(self, _: asyncio.Future[Answer]) -> None:
        """Answered, or its client has gone."""
        self._timeout.cancel()
        self._metrics.waiting_fetches -= 1
        for partition in self._partitions:
            partition.fetchers.pop(self, None)
