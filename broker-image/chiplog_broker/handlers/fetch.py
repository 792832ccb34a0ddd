"""Fetch: read at once; wait if there is less than `min_bytes`.

The size limits are Kafka's: the first batch is sent even if it is larger, or its reader would never
get past it. A full fetch may open a session (KIP-227), in which later requests and answers contain
only changes.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from chiplog_broker.fetch_sessions.cache import MAX_SESSION_PARTITIONS, FetchSessionCache
from chiplog_broker.fetch_sessions.session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Owner
from chiplog_broker.handlers.authorized.asking import Asking, Guards
from chiplog_broker.handlers.leaders import DEBUGGING_CONSUMER_ID, LARGEST_CONSUMER_ID, Leaders
from chiplog_broker.handlers.read_replicas import ReadReplicas
from chiplog_broker.handlers.reading import Attempts, Reading, unreadable
from chiplog_broker.handlers.replica_fetch import ReplicaReading
from chiplog_broker.handlers.session_reading import SessionReading
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.handlers.without_duplicates import without_duplicates
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.server.call import Answer, Call
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_broker.settings import setting
from chiplog_core.authorizer.acls import Operation, ResourceType
from chiplog_core.config import broker_keys as keys
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

logger = logging.getLogger(__name__)

TOPIC_IDS_FROM_VERSION = 13
# Version from which errors of the session are errors of the whole answer (KIP-227).
CODE_FROM_VERSION = 7
# Before this version nobody reads from a follower (KIP-392), as in Kafka.
FOLLOWERS_FROM_VERSION = 11
# Earlier answers have no place for the leaders' addresses (KIP-951).
LEADERS_FROM_VERSION = 16
# While a client's fetch waits its connection is not read, so a closed connection is not noticed.
LONGEST_WAIT_S = 60.0
# A waiting follower gets a new high watermark after this time, if no records come earlier. To send
# it immediately would double the fetches if producers use acks=all; Kafka, which did so for a time
# (KAFKA-9731), waits until the fetch ends.
NEWS_WAIT_S = 0.01
# A client's fetch of more partitions than this, outside a session, is large: read in slices.
WIDE_PARTITIONS = 2_000
# A large fetch that found too little is tried again after this time, or after this multiple of the
# time that the attempt took: an attempt for each append would occupy the broker.
LARGE_FETCH_PAUSE_S = 0.1
LARGE_FETCH_PAUSE_FACTOR = 10


class FetchHandler:
    """Serves consumers and followers from partitions led here, some consumers also from followers.

    A consumer with replica id -2 reads this broker's replica up to its high watermark, also if it
    is a follower. Without that id, consumers are referred to the leader.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the services that it uses
        self,
        cluster: ClusterView,
        leaders: Leaders,
        metrics: RequestMetrics,
        long_work: LongWork,
        sessions: FetchSessionCache,
        config: Mapping[str, str],
        throttle: ReplicationThrottle,
        guards: Guards | None = None,
    ) -> None:
        """`guards` decides which topics a client may read; None if it may read all."""
        self._guards = guards
        self._throttle = throttle
        self._read_replicas = ReadReplicas(cluster, config)
        self._cluster = cluster
        self._leaders = leaders
        self._metrics = metrics
        self._long_work, self._clock = long_work, long_work.clock
        self._sessions = sessions
        self._large_fetch_lock = asyncio.Lock()
        self._max_bytes = setting(config, keys.FETCH_MAX_BYTES)

    def __call__(self, call: Call[FetchRequest]) -> FetchResponse | asyncio.Future[Answer]:
        """Answer a fetch at once, or return a future of its answer if it waits or is large."""
        request = call.message
        if request.replica_id > LARGEST_CONSUMER_ID and not call.peer.is_internal:
            # A client that poses as a broker could delay the high watermark or advance it wrongly.
            code = ErrorCode.cluster_authorization_failed
            if self._guards is not None:
                code = ErrorCode.topic_authorization_failed  # as Kafka's authorizer
            return refused(request, code)
        request = call.message = request._replace(topics=without_duplicates(request.topics))
        count = sum(len(topic.partitions) for topic in request.topics)
        if count > MAX_SESSION_PARTITIONS and not call.peer.is_internal:
            # All of these partitions would be read again for each record in one of them. A follower
            # may fetch this many: otherwise it could never become in sync again.
            code = ErrorCode.invalid_request
            has_code = call.header.version >= CODE_FROM_VERSION
            return FetchResponse([], error_code=code) if has_code else refused(request, code)
        reading = self._allowed_attempts(call)
        if isinstance(reading, FetchResponse):
            return reading
        if count > WIDE_PARTITIONS and isinstance(reading, Reading) and not call.peer.is_internal:
            # A task that is cancelled with its connection.
            return asyncio.get_running_loop().create_task(self._fetch_in_slices(call, reading))
        response = reading.attempt()
        if reading.is_enough or request.max_wait_ms <= 0:
            return reading.sent(response)
        return WaitingFetch(call, reading, self._metrics).start()

    async def _fetch_in_slices(self, call: Call[FetchRequest], reading: Reading) -> Answer:
        """Read many partitions in slices, again and again until there is enough or time is up.

        Only one such fetch reads at a time, so that their records do not add up in memory.
        """
        wait_s = min(max(call.message.max_wait_ms, 0) / 1000, LONGEST_WAIT_S)
        until_s = self._clock.monotonic_s() + wait_s
        self._metrics.waiting_fetches += 1
        try:
            while True:
                async with self._large_fetch_lock:
                    began_s = self._clock.monotonic_s()
                    response = await reading.attempt_in_slices(self._long_work.slices())
                    now_s = self._clock.monotonic_s()
                    if reading.is_enough or now_s >= until_s:
                        return call.encode(reading.sent(response))
                # Reading again costs as long as this attempt. With the factor, such a fetch uses at
                # most a tenth of the time.
                pause_s = max(LARGE_FETCH_PAUSE_S, LARGE_FETCH_PAUSE_FACTOR * (now_s - began_s))
                await self._clock.sleep(min(pause_s, until_s - now_s))
        except Exception:
            logger.exception("request_failed", extra={"api": call.header.api.name})
            raise
        finally:
            self._metrics.waiting_fetches -= 1

    def _allowed_attempts(self, call: Call[FetchRequest]) -> Attempts | FetchResponse:
        """As `_new_attempts`; an answer without records if the client's quota is used up."""
        found = self._new_attempts(call)
        if isinstance(found, FetchResponse) or call.usage is None or call.usage.may_fetch():
            return found
        # An open session stays as it is, and a new one is not opened, as in Kafka.
        is_open = isinstance(found, SessionReading)
        return FetchResponse([], session_id=call.message.session_id if is_open else NO_SESSION)

    def _new_attempts(self, call: Call[FetchRequest]) -> Attempts | FetchResponse:
        """An object that makes the answer; or the answer itself if there is nothing to read."""
        request = call.message
        # Outside sessions, as all consumers fetch that do not know sessions.
        if request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION:
            return self._new_reading(call)
        peer = call.peer
        owner = Owner(peer.principal, peer.is_internal, request.replica_id, request.replica_epoch)
        uses_ids = call.header.version >= TOPIC_IDS_FROM_VERSION
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.close(request.session_id, owner)
            reading = self._new_reading(call)
            if request.session_epoch == INITIAL_EPOCH:
                reading.opens = partial(self._open_session, call, owner, uses_ids=uses_ids)
            return reading
        session = self._sessions.resume(
            owner, request, self._clock.monotonic_s(), uses_topic_ids=uses_ids
        )
        if isinstance(session, ErrorCode):
            return FetchResponse([], error_code=session)
        self._use_session(session.id, peer)
        if self._guards is not None:
            session.check_again(self._guards.authorization.version)
        if not session.size:
            return FetchResponse([])
        return SessionReading(session, self._new_reading(call))

    def _open_session(
        self, call: Call[FetchRequest], owner: Owner, response: FetchResponse, *, uses_ids: bool
    ) -> int:
        """Open a session with the partitions of a request, and return its id, or 0 for no session.

        `response` is the answer to the request. `uses_ids`: the request names topics by id.
        """
        now_s = self._clock.monotonic_s()
        session_id = self._sessions.open(
            owner, call.message, response, now_s, uses_topic_ids=uses_ids
        )
        self._use_session(session_id, call.peer)
        return session_id

    def _use_session(self, session_id: int, peer: Peer) -> None:
        """Note that the connection uses this session, and remove the one that it used before."""
        if peer.fetch_session != session_id:
            self._leave_session(peer)
            peer.fetch_session = session_id
            peer.on_left = self._leave_session
        self._sessions.set_holder(session_id, peer)

    def _leave_session(self, peer: Peer) -> None:
        """Remove the session that the connection used until now."""
        self._sessions.holder_left(peer.fetch_session, peer)

    def _new_reading(self, call: Call[FetchRequest]) -> Reading:
        """An object that reads partitions for the request's follower or consumer."""
        request, selector = call.message, self._read_replicas
        max_bytes = min(request.max_bytes, self._max_bytes)
        if call.usage is not None:
            max_bytes = call.usage.fetch_bytes(max_bytes)
        if request.replica_id > LARGEST_CONSUMER_ID:
            return ReplicaReading(
                request,
                max_bytes,
                self._cluster,
                self._leaders,
                self._throttle,
                has_readers=selector.is_rack_aware,
            )
        may_read = None
        if self._guards is not None and not call.peer.is_internal:
            may_read = partial(Asking(self._guards, call).may, Operation.READ, ResourceType.TOPIC)
        near = selector.near(request.rack_id, call.peer.listener.name) if request.rack_id else ()
        # A debugging consumer reads this broker's replica, be it leader or follower.
        is_debugging = request.replica_id == DEBUGGING_CONSUMER_ID
        reading = Reading(
            request,
            max_bytes,
            self._cluster,
            self._leaders,
            near,
            any_role=is_debugging and call.header.version >= FOLLOWERS_FROM_VERSION,
        )
        if may_read is not None:
            reading.denies = lambda topic: not may_read(topic)
        if call.header.version >= LEADERS_FROM_VERSION:
            reading.listener = call.peer.listener.name
        if call.peer.memory is not None:
            reading.available_bytes = call.peer.memory.budget.available_for_answer
        return reading


def refused(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """An answer with the same error for each partition. Older versions have no error for a whole
    answer."""
    return FetchResponse(
        [
            FetchTopicResponse(
                topic.name,
                topic.topic_id,
                [unreadable(partition, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


class WaitingFetch:
    """A fetch that found too little: it tries again when one of its partitions changes."""

    def __init__(
        self, call: Call[FetchRequest], attempts: Attempts, metrics: RequestMetrics
    ) -> None:
        """`attempts` reads what the request asks for, again with each change of a partition."""
        self._call = call
        self._attempts = attempts
        self._metrics = metrics
        self._future: asyncio.Future[Answer]
        self._timeout: asyncio.TimerHandle
        self._due_s: float
        """The time of the event loop's clock at which the fetch is answered with what there is."""

    def start(self) -> asyncio.Future[Answer]:
        """Wait, at most as long as the request's `max_wait`."""
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._leave)
        wait_s = min(self._call.message.max_wait_ms / 1000, LONGEST_WAIT_S)
        self._due_s = loop.time() + wait_s
        self._timeout = loop.call_at(self._due_s, self._time_out)
        self._shorten_wait()
        self._metrics.waiting_fetches += 1
        self._attempts.join(self)
        if self._call.peer.is_internal:
            self._call.peer.end_wait = self._time_out
        return self._future

    def changed(self) -> None:
        """Try again, because a partition has more records or cannot be read here any more."""
        self._call.answer(self._future, partial(self._attempt, last=False))

    def _time_out(self) -> None:
        self._call.answer(self._future, partial(self._attempt, last=True))

    def _attempt(self, *, last: bool) -> FetchResponse | None:
        """Read again; None if the fetch waits on. The `last` attempt is answered in any case."""
        response = self._attempts.attempt()
        if not (last or self._attempts.is_enough):
            self._shorten_wait()
            return None
        return self._attempts.sent(response)

    def _shorten_wait(self) -> None:
        """Shorten the wait to `NEWS_WAIT_S` if there are changes that justify an answer."""
        if not self._attempts.has_changes:
            return
        loop = asyncio.get_running_loop()
        due_s = loop.time() + NEWS_WAIT_S
        if due_s < self._due_s:
            self._due_s = due_s
            self._timeout.cancel()
            self._timeout = loop.call_at(due_s, self._time_out)

    def _leave(self, _: asyncio.Future[Answer]) -> None:
        """End the wait: the fetch was answered, or its client disconnected."""
        self._timeout.cancel()
        self._call.peer.end_wait = None
        self._metrics.waiting_fetches -= 1
        self._attempts.leave(self)
