"""How fast one client may create and delete partitions (KIP-599).

A change of any size is allowed if the client's bucket has at least a part of a token, and may leave
a debt. So a topic with more partitions than a burst can be created, and later changes wait until
the bucket has filled again.
"""

from typing import Final

from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC
from chiplog_core.throttle.bucket import TokenBucket

BURST_S: Final = 11
"""The size of the bucket, as the time in which it fills: the default of Kafka's
`controller.quota.window.num` times that of its `controller.quota.window.size.seconds`. A token is
one partition."""


def counted(partitions: int) -> int:
    """How many partitions a change counts as.

    A number of partitions that no topic can have counts as one. Such a request is refused later,
    and must not change the tokens by a negative or huge number.
    """
    return partitions if 1 <= partitions <= MAX_PARTITIONS_PER_TOPIC else 1


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
        bucket is empty, return the milliseconds to wait (`TokenBucket.spend`)."""
        return self._bucket(client, now_s).spend(counted(partitions), now_s)

    def _bucket(self, client: str, now_s: float) -> TokenBucket:
        """The client's bucket. When there are too many, full ones are forgotten; if that is not
        enough, all new clients share one."""
        if client not in self._buckets and len(self._buckets) >= self.MAX_CLIENTS:
            self._buckets = {
                name: bucket for name, bucket in self._buckets.items() if not bucket.is_full(now_s)
            }
            if len(self._buckets) >= self.MAX_CLIENTS:
                client = ""  # the name of the shared bucket
        return self._buckets.setdefault(client, TokenBucket.full(self._per_s, BURST_S, now_s))
