"""Limits clients to their quotas, for all connections of a broker (KIP-13, KIP-124, KIP-219).

A request of a client that has used up its quota is answered at once. The answer has the time after
which the client may go on, and the broker does not read the connection for this time. A Fetch is
then answered without records. Requests of clients without a quota are not counted: they cost
nothing. Brokers are never limited, nor are clients before their login is complete.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from math import ceil
from types import coroutine
from typing import Any, TypeVar

from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_core.authorizer.acls import MAX_FIELD_LENGTH
from chiplog_core.client_quotas.accounting import ClientQuotas, Limits
from chiplog_core.client_quotas.entities import Quota
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_core.throttle.bucket import TokenBucket
from chiplog_wire.protocol.answers import throttled
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.requests import RequestHeader

USER_PREFIX = "User:"

T = TypeVar("T")


class Throttling:
    """Finds out whether a client is limited, and begins to count its requests."""

    def __init__(self, clock: Clock, metrics: RequestMetrics) -> None:
        self._quotas = ClientQuotas()
        self._clock = clock
        self.metrics = metrics
        self.is_active = False
        """Whether there is any quota."""

    def use(self, table: QuotaTable) -> None:
        """From now on these quotas apply."""
        self._quotas.use(table)
        self.is_active = self._quotas.is_active

    def now_s(self) -> float:
        """The time of all buckets."""
        return self._clock.monotonic_s()

    def begin(
        self, header: RequestHeader, peer: Peer, began_s: float, size_bytes: int
    ) -> "Usage | None":
        """Begin to count a request, which has this size and began at this time of
        `time.perf_counter`; None if its client is not limited."""
        if peer.is_internal or peer.sasl is not None:
            return None
        # Each connection keeps its client id, which a client may choose very long.
        limits = self._limits(peer, (header.client_id or "")[:MAX_FIELD_LENGTH])
        if limits is None:
            return None
        usage = Usage(self, limits, header.api_key, peer, began_s)
        if header.api_key is ApiKey.PRODUCE:
            usage.throttle(limits.produced(size_bytes, self.now_s()), Quota.PRODUCER_BYTE_RATE)
        return usage

    def _limits(self, peer: Peer, client_id: str) -> Limits | None:
        """The limits of a client, which its connection remembers."""
        known = self._quotas.version, peer.principal, client_id
        if peer.limits_of != known:
            user = peer.principal.removeprefix(USER_PREFIX)
            peer.limits = self._quotas.limits(user, client_id, self.now_s())
            # The version is read again: it is another one if buckets were forgotten.
            peer.limits_of = self._quotas.version, peer.principal, client_id
        return peer.limits


class Usage:
    """What one request of a limited client uses."""

    __slots__ = ("_key", "_limits", "_peer", "_running_since_s", "_spent_s", "_throttling")

    def __init__(
        self, throttling: Throttling, limits: Limits, key: ApiKey, peer: Peer, began_s: float
    ) -> None:
        self._throttling = throttling
        self._limits = limits
        self._key = key
        self._peer = peer
        self._spent_s = 0.0
        self._running_since_s: float | None = began_s

    @property
    def mutations(self) -> TokenBucket | None:
        """The bucket for created and deleted partitions; None if they are not limited."""
        return self._limits.mutations

    def throttle(self, wait_s: float, quota: Quota) -> None:
        """Have the connection not read for this time; 0 has no effect."""
        if wait_s <= 0:
            return
        until_s = asyncio.get_running_loop().time() + wait_s
        self._peer.muted_until_s = max(self._peer.muted_until_s, until_s)
        counters = self._throttling.metrics.throttled[quota]
        counters.times += 1
        counters.total_s += wait_s

    # -- Fetch

    def may_fetch(self) -> bool:
        """Whether the client gets records now. If not, the connection is throttled."""
        wait_s = self._limits.fetch_wait_s(self._throttling.now_s())
        self.throttle(wait_s, Quota.CONSUMER_BYTE_RATE)
        return wait_s <= 0

    def fetch_bytes(self, max_bytes: int) -> int:
        """`max_bytes`, or less if the client may not get so many now."""
        allowed_bytes = self._limits.fetch_bytes(self._throttling.now_s())
        return max_bytes if allowed_bytes is None else min(max_bytes, allowed_bytes)

    # -- the time that the request takes: of the event loop, and of another thread for its messages

    def pause(self) -> None:
        """The request waits."""
        if self._running_since_s is not None:
            self._spent_s += time.perf_counter() - self._running_since_s
            self._running_since_s = None

    def resume(self) -> None:
        """The request is worked on."""
        if self._running_since_s is None:
            self._running_since_s = time.perf_counter()

    async def measure(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and count the time of its steps."""
        return await self._steps(work)

    @coroutine
    def _steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what a coroutine waits for, and count the time of each step."""
        step: Callable[[Any], Any] = work.send
        value: Any = None
        while True:
            self.resume()
            try:
                waits_for = step(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.pause()
            try:
                value = yield waits_for
                step = work.send
            except BaseException as error:  # noqa: BLE001 - passed on, also a cancellation
                step, value = work.throw, error

    # -- the answer

    def answered(self, message: object) -> object:
        """Count the time that the request took. Returns its answer, which is not encoded yet, with
        the time for which the connection is not read."""
        self.throttle(self._count_time(), Quota.REQUEST_PERCENTAGE)
        self.resume()
        muted_s = self._peer.muted_until_s - asyncio.get_running_loop().time()
        return throttled(message, ceil(muted_s * 1000)) if muted_s > 0 else message

    def _count_time(self) -> float:
        """Count the time so far. Returns for how many seconds the connection is throttled."""
        self.pause()
        spent_s, self._spent_s = self._spent_s, 0.0
        return self._limits.took(spent_s, self._throttling.now_s())

    def encoded(self, size_bytes: int) -> None:
        """Count the size of the answer, and the time to encode it; the next request waits for what
        is too much, as in Kafka."""
        self._count_time()
        if self._key is ApiKey.FETCH:
            self._limits.fetched(size_bytes, self._throttling.now_s())
