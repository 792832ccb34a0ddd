"""How many bytes may be copied now: a bucket that fills at the limit, and a rate for metrics.

An answer may take more than the bucket holds, since a batch is never split: the bucket is then in
debt, and nothing is copied until the debt is repaid. So each copy makes progress even if the limit
is below the size of a batch, and over a long time the limit holds.
"""

from collections import deque
from dataclasses import dataclass, field
from math import floor
from typing import Final

from chiplog_core.throttle.bucket import TokenBucket

BURST_S: Final = 1.0
"""The size of the bucket, as the time in which it fills. Kafka measures over eleven seconds
(`replication.quota.window.num`), and so allows bursts of ten."""
LEAST_SHARE: Final = 0.1
"""Nothing is copied while the bucket holds less than this share of its size: otherwise each batch
would be a request of its own."""
RATE_WINDOW_S: Final = 10


@dataclass(slots=True)
class CopyQuota:
    """The bytes that one side of a broker, leader or follower, may copy. Times are seconds of a
    monotonic clock."""

    _bucket: TokenBucket | None = None
    """None until there is a limit."""
    _spent: "deque[tuple[int, int]]" = field(default_factory=deque)
    """The bytes copied in each of the last seconds."""

    def available_bytes(self, rate: int, now_s: float) -> int:
        """How many bytes may be copied now at this limit, in bytes per second; 0 while it is used
        up. Another limit than before takes effect at once, with a full bucket."""
        bucket = self._at(rate, now_s)
        return 0 if bucket.wait_s(now_s, LEAST_SHARE) else max(floor(bucket.tokens), 1)

    def wait_s(self, rate: int, now_s: float) -> float:
        """After what time bytes are available again; 0 if they are now."""
        return self._at(rate, now_s).wait_s(now_s, LEAST_SHARE)

    def spend(self, copied_bytes: int, now_s: float) -> None:
        """Count bytes that were copied under the limit."""
        if self._bucket is not None:
            self._bucket.take(copied_bytes, now_s)
        second = floor(now_s)
        if self._spent and self._spent[-1][0] == second:
            copied_bytes += self._spent.pop()[1]
        self._spent.append((second, copied_bytes))
        self._forget(second)

    def rate(self, now_s: float) -> float:
        """The bytes per second that were copied under the limit in the last ten seconds."""
        self._forget(floor(now_s))
        return sum(copied_bytes for _, copied_bytes in self._spent) / RATE_WINDOW_S

    def _at(self, rate: int, now_s: float) -> TokenBucket:
        """The bucket, which fills at this rate from now on."""
        if self._bucket is None:
            self._bucket = TokenBucket.full(rate, BURST_S, now_s)
        elif self._bucket.per_s != rate:
            self._bucket.change_rate(rate, now_s)
        return self._bucket

    def _forget(self, second: int) -> None:
        """Forget what was copied before the window that ends with this second."""
        while self._spent and self._spent[0][0] <= second - RATE_WINDOW_S:
            self._spent.popleft()
