"""A token bucket: how much may be used now, if a rate must hold over a long time.

It fills at the rate, up to a burst, like Kafka's `TokenBucket`
(`org.apache.kafka.common.metrics.stats`). A single use may be larger than what the bucket holds:
the bucket is then in debt, and later uses wait until the debt is repaid. No use is forgotten, so
the rate holds, and even a use that is larger than the burst is possible.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import Final

LONGEST_WAIT_MS: Final = 24 * 3600 * 1000
"""The wait in place of an endless one, where nothing is allowed."""


@dataclass(slots=True)
class TokenBucket:
    """One bucket. Times are seconds of a monotonic clock."""

    per_s: float
    """Tokens per second."""
    burst_s: float
    """The size of the bucket, as the time in which it fills."""
    tokens: float
    """The tokens in the bucket at the time `as_of_s`; negative for a debt."""
    as_of_s: float

    @staticmethod
    def full(per_s: float, burst_s: float, now_s: float) -> "TokenBucket":
        """A full bucket, of which nothing was used yet."""
        return TokenBucket(per_s, burst_s, per_s * burst_s, now_s)

    @property
    def size(self) -> float:
        """The tokens of a full bucket."""
        return self.per_s * self.burst_s

    def spend(self, amount: float, now_s: float) -> int:
        """Take this many tokens if any are left, and return 0. Otherwise take none, and return
        after how many milliseconds there are some again."""
        self.fill(now_s)
        if self.tokens <= 0:
            # By the rate or by less: a rate may be so small that the quotient would be infinite.
            if -self.tokens * 1000 >= LONGEST_WAIT_MS * self.per_s:
                return LONGEST_WAIT_MS
            return max(ceil(-self.tokens * 1000 / self.per_s), 1)
        self.tokens -= amount
        return 0

    def take(self, amount: float, now_s: float) -> float:
        """Take this many tokens in any case. Returns after how many seconds the debt is repaid; 0
        without a debt."""
        self.fill(now_s)
        self.tokens -= amount
        return self.wait_s(now_s)

    def wait_s(self, now_s: float, share: float = 0.0) -> float:
        """After how many seconds the bucket holds this share of its size; 0 if it does now. A
        bucket that never fills holds no share."""
        self.fill(now_s)
        if not self.per_s:
            return inf if share or self.tokens < 0 else 0.0
        return max(self.size * share - self.tokens, 0.0) / self.per_s

    def change_rate(self, per_s: float, now_s: float) -> None:
        """Use another rate. It takes effect at once, with a full bucket."""
        self.per_s, self.tokens, self.as_of_s = per_s, per_s * self.burst_s, now_s

    def is_full(self, now_s: float) -> bool:
        """Whether the bucket is full, so that it can be forgotten and created again later."""
        self.fill(now_s)
        return self.tokens >= self.size

    def fill(self, now_s: float) -> None:
        """Add the tokens for the time since the last call, up to the size of the bucket."""
        self.tokens = min(self.tokens + (now_s - self.as_of_s) * self.per_s, self.size)
        self.as_of_s = now_s
