"""Fetch: read at once; wait where there is too little to answer with.

Answers obey the request's size in Kafka's way: the first batch is sent even where it is
larger than allowed, or its reader could never get past it. Fetch sessions are declined
(session id 0), which every client accepts; who comes back with one all the same is told
that it is not known, and begins anew.
"""

import asyncio
from functools import partial

from chiplog_broker.handlers.call import Answer, Call
from chiplog_broker.handlers.leaders import LARGEST_CONSUMER_ID, Leaders
from chiplog_broker.handlers.reading import Reading, unreadable
from chiplog_broker.handlers.replica_fetch import ReplicaReading
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.protocol.messages import (
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


class FetchHandler:
    """Serves consumers and followers from the partitions that this broker leads."""

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
        max_bytes = min(request.max_bytes, self._max_bytes)
        if request.replica_id > LARGEST_CONSUMER_ID:
            reading: Reading = ReplicaReading(request, max_bytes, self._cluster, self._leaders)
        else:
            room_bytes = max(UNSENT_BYTES - self._metrics.unsent_bytes, 0)
            max_bytes = min(max_bytes, room_bytes)
            reading = Reading(request, max_bytes, self._cluster, self._leaders)
        response = reading.attempt()
        if reading.is_enough or request.max_wait_ms <= 0:
            reading.count()
            return response
        return WaitingFetch(call, reading, self._metrics).start()


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
        self._queues = list(reading.queues())
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
        for queue in self._queues:
            queue[self] = None
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
        for queue in self._queues:
            queue.pop(self, None)
