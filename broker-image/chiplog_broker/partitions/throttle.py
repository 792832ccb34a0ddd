"""The throttle of one broker (KIP-73): a quota for what it sends as a leader, and one for what it
fetches as a follower. Only copies count: fetches for replicas outside the ISR.

The limits are in the broker's configuration, and are read each time: a change takes effect at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_broker.partitions.following import Following, has_caught_up
from chiplog_broker.ports.clock import Clock
from chiplog_core.throttle.copying import NO_COPYING, Copying, follower_rate, leader_rate
from chiplog_core.throttle.quota import CopyQuota

LONGEST_HOLD_S: Final = 0.5
SHORTEST_HOLD_S: Final = 0.001
ANY_COPY: Final = Copying(leader_is_listed=True, follower_is_listed=True, is_added=True)


@dataclass(frozen=True, slots=True)
class CopyShare:
    """What one request may fetch for copies."""

    config: Mapping[str, str]
    available_bytes: int
    """The most bytes of an answer; 0 if nothing may be fetched now."""
    opens_at_s: float
    """When to ask again if nothing may be fetched, in seconds of the monotonic clock."""

    def is_limited(self, following: Following) -> bool:
        """Whether the limit applies to this partition. A replica that has caught up is fetched in
        any case: its leader may have proposed it for the ISR, and then producers wait for it."""
        if has_caught_up(following):
            return False
        return follower_rate(self.config, following.copying) is not None


class ReplicationThrottle:
    """The two quotas, and the limits in force."""

    def __init__(self, clock: Clock, config: Mapping[str, str]) -> None:
        """`config` is the broker's configuration, which may change at any time."""
        self._clock = clock
        self._config = config
        self._leader = CopyQuota()
        self._follower = CopyQuota()

    def leader_bytes(self, copying: Copying) -> int | None:
        """How many bytes a leader here may send for copies now; None for no limit."""
        rate = None if copying is NO_COPYING else leader_rate(self._config, copying)
        if rate is None:
            return None
        return self._leader.available_bytes(rate, self._clock.monotonic_s())

    def leader_sent(self, sent_bytes: int) -> None:
        """Count bytes that a leader here sent for copies under the limit."""
        self._leader.spend(sent_bytes, self._clock.monotonic_s())

    def follower_share(self, now_s: float) -> CopyShare | None:
        """What the next request for copies may fetch; None for no limit."""
        rate = follower_rate(self._config, ANY_COPY)
        if rate is None:
            return None
        available_bytes = self._follower.available_bytes(rate, now_s)
        # Asked again soon, because the limit may be raised or removed meanwhile.
        wait_s = min(max(self._follower.wait_s(rate, now_s), SHORTEST_HOLD_S), LONGEST_HOLD_S)
        return CopyShare(self._config, available_bytes, now_s + wait_s)

    def follower_received(self, copying: Copying, received_bytes: int) -> None:
        """Count bytes that were fetched for a copy, if there is a limit for it."""
        if received_bytes and follower_rate(self._config, copying) is not None:
            self._follower.spend(received_bytes, self._clock.monotonic_s())

    @property
    def leader_byte_rate(self) -> float:
        """Bytes per second that leaders here sent under the limit, lately."""
        return self._leader.rate(self._clock.monotonic_s())

    @property
    def follower_byte_rate(self) -> float:
        """Bytes per second that followers here fetched under the limit, lately."""
        return self._follower.rate(self._clock.monotonic_s())
