"""Keeps clients from changing topics faster than the quota says (KIP-599).

A client that knows THROTTLING_QUOTA_EXCEEDED (`THROTTLE_FROM_VERSION`) gets this error, and the
answer says how long it must wait. An older client does not know the error, so its request waits
here, at most for the request's own timeout.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.call import Call
from chiplog_broker.settings import setting
from chiplog_core.client_quotas.mutation_quota import MutationQuota, counted
from chiplog_core.config.broker_keys import CONTROLLER_MUTATION_RATE
from chiplog_wire.protocol.answers import milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

Spend: TypeAlias = Callable[[int, float], int]
"""Counts partitions at a time in seconds. Returns 0, or the milliseconds until the next try."""

THROTTLE_FROM_VERSION: Final[Mapping[ApiKey, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""First version whose clients throttle themselves: these get an error at once, as in Kafka."""

LONGEST_WAIT_S: Final = 30.0
"""Longest wait of an older client's request, also if the request's own timeout is longer."""

STOP_CHECK_S: Final = 0.5
"""Interval at which a waiting request checks whether the broker stops: a stop waits for it."""

EXCEEDED: Final = Outcome(
    ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
)
STILL_EXCEEDED: Final = Outcome(
    ErrorCode.request_timed_out,
    "this client creates and deletes more partitions per second than its quota allows "
    "(controller_mutation_rate, or else chiplog.controller.mutation.rate): try again later",
)


class Pace:
    """Applies the controller mutation quota of a client to one request."""

    def __init__(
        self,
        spend: Spend,
        clock: Clock,
        longest_wait_s: float | None,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        """`spend` counts partitions. `longest_wait_s` is None if the client gets an error instead
        of waiting. `stops` returns whether the broker is stopping; then a waiting request is
        answered."""
        self._spend = spend
        self._clock = clock
        self._longest_wait_s = longest_wait_s
        self._stops = stops
        self._throttle_ms = 0

    @property
    def throttle_time(self) -> timedelta:
        """How long the client must wait before it tries again; part of the answer."""
        return timedelta(milliseconds=self._throttle_ms)

    async def spend(self, partitions: int) -> Outcome | None:
        """Count this many partitions as created or deleted, if the quota allows it. If it is used
        up, old clients wait here, because they do not know the quota error; others get it at once.

        Returns None if the partitions may be changed, else the error for the client.
        """
        began_s = self._clock.monotonic_s()
        while wait_ms := self._spend(partitions, self._clock.monotonic_s()):
            if self._longest_wait_s is None:
                self._throttle_ms = max(self._throttle_ms, wait_ms)
                return EXCEEDED
            until_s = self._clock.monotonic_s() + wait_ms / 1000
            if until_s - began_s > self._longest_wait_s or self._stops():
                return STILL_EXCEEDED
            await self._clock.sleep(min(wait_ms / 1000, STOP_CHECK_S))
        return None


class Pacing:
    """The controller mutation quotas (KIP-599) of all clients of this broker.

    A client whose user or client id has such a quota is limited by that, any other one by its
    address.
    """

    def __init__(self, clock: Clock, config: Mapping[str, str]) -> None:
        self._clock = clock
        self._quota = MutationQuota(setting(config, CONTROLLER_MUTATION_RATE))
        self._stops = False

    def stop(self) -> None:
        """Answer waiting requests soon, and let no request wait any more, because the broker
        stops."""
        self._stops = True

    def of(self, call: Call[Any]) -> Pace:
        """The quota for a request that changes topics; old clients may wait."""
        longest_wait_s = None
        if call.header.version < THROTTLE_FROM_VERSION[call.header.api_key]:
            timeout_s = milliseconds(call.message.timeout) / 1000
            longest_wait_s = min(timeout_s, LONGEST_WAIT_S)
        return Pace(self._spend_of(call), self._clock, longest_wait_s, lambda: self._stops)

    def of_metadata(self, call: Call[Any]) -> Pace:
        """The quota for topics that a Metadata request creates automatically. If it is used up, the
        request gets an error at once and does not wait."""
        return Pace(self._spend_of(call), self._clock, None)

    def _spend_of(self, call: Call[Any]) -> Spend:
        """What counts the partitions of a client."""
        bucket = None if call.usage is None else call.usage.mutations
        if bucket is None:
            return partial(self._quota.spend, call.peer.host)
        return lambda partitions, now_s: bucket.spend(counted(partitions), now_s)
