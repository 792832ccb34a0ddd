"""How fast one client may create and delete partitions (KIP-599).

A token bucket like Apache Kafka's (`org.apache.kafka.common.metrics.stats.TokenBucket`): it fills
at the quota's rate, up to a burst. A change of any size is allowed if the bucket has at least a
part of a token, and may leave a negative number of tokens. So a topic with more partitions than a
burst can be created, and later changes wait until the bucket has filled again.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC

BURST_S: Final = 11
"""The size of the bucket, as the time in which it fills: the default of Kafka's
`controller.quota.window.num` times that of its `controller.quota.window.size.seconds`."""


@dataclass(slots=True)
class TokenBucket:
    """The bucket of one client. Times are seconds of a monotonic clock."""

    per_s: int
    """The quota: tokens per second. A token is one partition."""
    tokens: float
    """The tokens in the bucket at the time `as_of_s`; negative after a large change."""
    as_of_s: float

    @staticmethod
    def full(per_s: int, now_s: float) -> "TokenBucket":
        """A full bucket, for a client that has changed nothing yet."""
        return TokenBucket(per_s, float(per_s * BURST_S), now_s)

    def spend(self, partitions: int, now_s: float) -> int:
        """Take a token for each partition if any are left, and return 0. Otherwise take none and
        return after how many milliseconds the client may try again."""
        self._fill(now_s)
        if self.tokens <= 0:
            return max(ceil(-self.tokens * 1000 / self.per_s), 1)
        self.tokens -= partitions
        return 0

    def is_full(self, now_s: float) -> bool:
        """Whether the bucket is full, so that it can be forgotten and created again later."""
        self._fill(now_s)
        return self.tokens >= self.per_s * BURST_S

    def _fill(self, now_s: float) -> None:
        """Add the tokens for the time since the last call, up to the size of the bucket."""
        filled = self.tokens + (now_s - self.as_of_s) * self.per_s
        self.tokens = min(filled, float(self.per_s * BURST_S))
        self.as_of_s = now_s


class MutationQuota:
    """The buckets of a broker's clients. A client is identified by its address, because it can
    choose any client id."""

    MAX_CLIENTS: Final = 10_000
    """How many clients have a bucket of their own at most. All others share one bucket."""

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._buckets: dict[str, TokenBucket] = {}

    def spend(self, client: str, partitions: int, now_s: float) -> int:
        """Take a token for each partition from the bucket of this client, and return 0; if the
        bucket is empty, return the milliseconds to wait (`TokenBucket.spend`).

        A number of partitions that no topic can have counts as one. Such a request is refused
        later, and must not change the tokens by a negative or huge number.
        """
        counted = partitions if 1 <= partitions <= MAX_PARTITIONS_PER_TOPIC else 1
        return self._bucket(client, now_s).spend(counted, now_s)

    def _bucket(self, client: str, now_s: float) -> TokenBucket:
        """The client's bucket. When there are too many, full ones are forgotten; if that is not
        enough, all new clients share one."""
        if client not in self._buckets and len(self._buckets) >= self.MAX_CLIENTS:
            self._buckets = {
                name: bucket for name, bucket in self._buckets.items() if not bucket.is_full(now_s)
            }
            if len(self._buckets) >= self.MAX_CLIENTS:
                client = ""  # the name of the shared bucket
        return self._buckets.setdefault(client, TokenBucket.full(self._per_s, now_s))
