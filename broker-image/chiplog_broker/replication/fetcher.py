"""Follows partitions that one other broker leads: with one task, one connection, one request at a
time. Copies, which are replicas outside the ISR that a throttle may hold back, have fetchers of
their own.

A request fetches every partition that can be fetched now, and names only the changes in its fetch
session. After an answer, the syncs that it started are awaited for a moment: the next request then
reports their offsets, by which the leader learns that records are durable here. A partition whose
sync takes longer does not delay the others. Copies are synced while others are fetched.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from chiplog_broker.metadata.listeners import INTERNAL_NAME
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.follow_steps import name_of
from chiplog_broker.partitions.following import (
    IN_MEMORY,
    ISR_LANE,
    Contact,
    Following,
    Taken,
    has_caught_up,
)
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerError, PeerLost, PeerUnreachable
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.rng import Rng
from chiplog_broker.replication.plan import (
    SYNC_PATIENCE_S,
    FetchLimits,
    FetchPlan,
    PlannedFetch,
    pause_s,
)
from chiplog_broker.replication.session import SESSION_ERRORS
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import replica_fetch
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.messages import FetchPartitionResponse, FetchResponse

logger = logging.getLogger(__name__)

DIAL_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 10.0
"""Time for an answer, in addition to the time that the leader may wait for records."""
FAILURES_TO_WARN: Final = 10
"""This many failures in a row, some seconds, are more than a restarting leader causes."""
NO_SESSION_PAUSE_S: Final = 0.1
SHORTEST_POLL_S: Final = 0.01
"""A waiting fetch is ended for a new partition, but not more often than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """The services and settings that all fetchers of a broker share."""

    cluster: ClusterView
    dialer: Dialer
    clock: Clock
    rng: Rng
    limits: Callable[[], FetchLimits]
    throttle: ReplicationThrottle
    moved: "Callable[[LeaderFetcher, Following], None]"
    """Called for a partition that must be fetched over another connection from now on."""

    def chance(self) -> float:
        """A random number between 0 and 1."""
        return int.from_bytes(self.rng.token(4), "big") / 2**32


class LeaderFetcher:
    """Fetches from one leader. Starts with the first partition, ends with `end`."""

    def __init__(self, leader_id: int, parts: FetcherParts, lane: int = ISR_LANE) -> None:
        """Fetches only partitions of this `Following.lane`."""
        self._leader_id = leader_id
        self.lane = lane
        self._parts = parts
        limits = parts.limits()
        self._plan = FetchPlan(limits.for_copies() if self._is_for_copies else limits, parts.chance)
        self._contact = Contact()
        self._news = self._contact.news
        """Set when a partition was added or has changed, so that waiting ends."""
        self._connection: PeerConnection | None = None
        self._polling_since_s: float | None = None
        """When the request in progress was sent; None if there is none, or its wait is being
        ended."""
        self._end_timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def _is_for_copies(self) -> bool:
        """Whether the throttle may hold back what it fetches."""
        return self.lane != ISR_LANE

    def __len__(self) -> int:
        return len(self._plan)

    def __iter__(self) -> Iterator[Following]:
        return iter(self._plan)

    def put(self, following: Following) -> None:
        """Fetch this partition, too, with the next request."""
        following.use_contact(self._contact)
        self._plan.put(following)
        self._news.set()
        self._end_poll_soon()

    def drop(self, following: Following) -> None:
        """Stop fetching for this `Following`; answers that still arrive for it are not applied."""
        self._plan.drop(following)

    def end(self) -> "asyncio.Task[None]":
        """Stop fetching. Returns the task, which ends once the answer in progress is applied."""
        self._task.cancel()
        return self._task

    def _end_poll_soon(self) -> None:
        """End the wait of a fetch at the leader, `SHORTEST_POLL_S` after its start: the new
        partition must be in the next request soon."""
        since_s = self._polling_since_s
        if since_s is None:
            return
        if self._end_timer is not None:
            # It may be for an earlier fetch, which has been answered since.
            self._end_timer.cancel()
        left_s = since_s + SHORTEST_POLL_S - self._parts.clock.monotonic_s()
        loop = asyncio.get_running_loop()
        self._end_timer = loop.call_later(max(left_s, 0), self._end_poll, since_s)

    def _end_poll(self, since_s: float) -> None:
        """Have the leader answer the fetch that was sent at `since_s`, if it still waits: it does
        so when another request follows. Which one does not matter; its answer is ignored.

        To close the connection would end the wait, too, but until another one is open nothing of
        this leader would be replicated: on a busy machine that takes longer than half a second.
        """
        self._end_timer = None
        connection = self._connection
        if self._polling_since_s != since_s or connection is None or not connection.is_open:
            return
        self._polling_since_s = None
        # Of version 0, whose body is empty.
        connection.send(ApiKey.API_VERSIONS, 0, []).cancel()

    # -- the task

    async def _run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                try:
                    await self._fetch_once()
                except Exception as failed:
                    # After any error: without this task nothing would be replicated.
                    logger.exception("fetcher_failed", extra={"leader": self._leader_id})
                    await self._disconnected(failed)
        finally:
            if self._end_timer is not None:
                self._end_timer.cancel()
            if self._connection is not None:
                self._connection.close()

    async def _fetch_once(self) -> None:
        """Send one request for all partitions that can be fetched now, and apply the answer; or
        wait if there is none. A lost connection is opened first."""
        self._news.clear()
        now_s = self._parts.clock.monotonic_s()
        planned = self._next_request(now_s)
        if planned is None:
            # `now_s` is also the time for which the plan found nothing to fetch. With a later time,
            # a pause that ended in between would be missed.
            await self._wait_for_news(now_s)
            return
        try:
            connection = self._connection
            if connection is None or not connection.is_open:
                connection = self._connection = await self._dial()
                # It may be another process, which does not know the fetch session.
                self._plan.lost()
                # New partitions may have come during the dial, and must not wait for a long poll.
                # Others may have gone to the other connection, so the earlier plan is not sent.
                planned = self._next_request(self._parts.clock.monotonic_s())
                if planned is None:
                    return
            response = await self._exchange(connection, planned)
            if not self._plan.answered(planned, response):
                if planned.in_session and response.error_code in SESSION_ERRORS:
                    return  # the next call sends a full fetch
                raise PeerLost(name_of(response.error_code))
        except (PeerError, ProtocolViolation) as lost:
            await self._disconnected(lost)
            return
        self._contact.answered(self._parts.clock.monotonic_s())
        if self._failures:
            logger.info("leader_reached", extra={"leader": self._leader_id})
            self._failures = 0
        await self._apply_answer(planned, response)

    def _next_request(self, now_s: float) -> PlannedFetch | None:
        """The next request; None if no partition can be fetched now, or before this broker has a
        session."""
        cluster = self._parts.cluster
        if not cluster.session:
            return None
        if self._contact.has_movers:
            self._let_move()
        share = self._parts.throttle.follower_share(now_s) if self._is_for_copies else None
        return self._plan.next_request(cluster.broker_id, cluster.session, now_s, share)

    def _let_move(self) -> None:
        """Give partitions to the other connections to this leader. No request is in progress here,
        so that the leader never has two for the same partition."""
        self._contact.has_movers = False
        for following in list(self._plan):
            if following.lane != self.lane:
                self._parts.moved(self, following)

    async def _wait_for_news(self, now_s: float) -> None:
        """Wait until a partition may be fetched: after a pause, or when one is added or changes."""
        wakes_at_s = self._plan.wakes_at_s(now_s)
        if wakes_at_s is not None:
            await self._pause(wakes_at_s - now_s)
        elif not self._parts.cluster.session:
            await self._pause(NO_SESSION_PAUSE_S)
        else:
            await self._news.wait()

    async def _pause(self, seconds: float) -> None:
        """Wait for this long, or until a partition is added or changes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _exchange(self, connection: PeerConnection, planned: PlannedFetch) -> FetchResponse:
        """Send a request and return the answer. Raises `PeerError` and `ProtocolViolation`."""
        version = connection.common_version(ApiKey.FETCH)
        if version < replica_fetch.LOWEST_VERSION:
            raise PeerError(
                f"the leader supports Fetch up to version {version}, and this broker needs "
                f"{replica_fetch.LOWEST_VERSION}"
            )
        body = replica_fetch.encode_request(version, planned.message)
        self._polling_since_s = self._parts.clock.monotonic_s()
        timeout_s = planned.message.max_wait_ms / 1000 + ANSWER_TIMEOUT_S
        try:
            answer = await connection.exchange(ApiKey.FETCH, version, [body], timeout_s)
        finally:
            self._polling_since_s = None
        return replica_fetch.decode_response(version, answer)

    async def _dial(self) -> PeerConnection:
        """A new connection to the leader's internal listener. Raises `PeerError`."""
        broker = self._parts.cluster.brokers.get(self._leader_id)
        node = None if broker is None else broker.on(INTERNAL_NAME)
        if broker is None or node is None:
            raise PeerUnreachable(f"broker {self._leader_id} has no address yet")
        return await self._parts.dialer.dial(
            node.host, node.port, DIAL_TIMEOUT_S, has_tls=broker.uses_tls
        )

    async def _disconnected(self, why: Exception) -> None:
        """Close the connection after a failed request, and pause."""
        self._plan.lost()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._failures += 1
        if self._failures in {1, FAILURES_TO_WARN}:
            # A leader that restarts is normal operation.
            level = logging.INFO if self._failures == 1 else logging.WARNING
            extra = {"leader": self._leader_id, "reason": str(why)}
            logger.log(level, "leader_unreachable", extra=extra)
        # A partition that is added ends the pause: it may show that the leader is back.
        self._news.clear()
        await self._pause(pause_s(self._failures, self._parts.chance()))

    async def _apply_answer(self, planned: PlannedFetch, response: FetchResponse) -> None:
        """Apply an answer completely, even if this task is cancelled; then wait for its syncs."""
        taking = asyncio.get_running_loop().create_task(self._apply_partitions(planned, response))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            # Partitions that are not followed any more ignore their part of the answer.
            await taking
            raise
        await self._wait_for_syncs(planned)

    async def _apply_partitions(self, planned: PlannedFetch, response: FetchResponse) -> None:
        """Apply the answer for each partition to its log, and note in the plan how that went."""
        clock = self._parts.clock
        for answered in planned.answers(response):
            if self._is_for_copies:
                self._parts.throttle.follower_received(
                    answered.following.copying, received_bytes(answered.fetched.answer)
                )
            taken = await answered.following.take(answered.fetched)
            self._plan.taken(answered.following, taken, clock.monotonic_s())
            if taken is Taken.PROGRESS:
                # Other tasks have waited while this answer was checked and written.
                await clock.sleep(0)

    async def _wait_for_syncs(self, planned: PlannedFetch) -> None:
        """Wait until the fetched records are durable, at most `SYNC_PATIENCE_S`: the next request
        then reports their offsets to the leader.

        Nobody waits for the offsets of copies that lag: while some sync, others are fetched. The
        leader may have proposed one that has caught up for the ISR, and then producers wait for it.
        """
        awaited = list(planned.following.values())
        if self._is_for_copies and self._plan.has_more:
            awaited = [following for following in awaited if has_caught_up(following)]
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_PATIENCE_S):
                while any(following.is_syncing for following in awaited):
                    self._news.clear()
                    await self._news.wait()


def received_bytes(answer: FetchPartitionResponse) -> int:
    """The size of the records in an answer for one partition."""
    records = answer.records
    assert isinstance(records, IN_MEMORY)  # the codec returns them as a view
    return len(records)
