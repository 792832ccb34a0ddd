"""What each limited client has used, in buckets.

Kafka averages a rate over eleven seconds, and allows as much as ten seconds' worth at once. Here a
burst is worth one second, so a rate holds within a few percent over half a minute. Clients see the
same: an answer with the time after which they may go on.
"""

from dataclasses import dataclass
from math import floor, inf
from typing import Final, TypeAlias

from chiplog_core.authorizer.acls import MAX_FIELD_LENGTH
from chiplog_core.client_quotas.entities import Entity, Quota
from chiplog_core.client_quotas.mutation_quota import BURST_S as MUTATION_BURST_S
from chiplog_core.client_quotas.table import NO_QUOTAS, QuotaTable
from chiplog_core.throttle.bucket import TokenBucket

BURST_S: Final = 1.0
"""The size of a bucket, as the time in which it fills."""
LEAST_SHARE: Final = 0.1
"""Nothing is fetched while the bucket holds less than this share of its size: otherwise each batch
would be a request of its own."""
SHARE_AFTER_WAIT: Final = 0.2
"""Who has to wait, waits for this share. It is larger, or a client that is read a little too early
would have to wait again."""
LONGEST_THROTTLE_S: Final = 300.0
"""The longest time for which a client has to wait: less than the time after which an idle
connection is closed. The rest of its debt is not forgotten: its next request waits again."""
LONGEST_REQUEST_THROTTLE_S: Final = 1.0
"""The same for the quota of request time, as in Kafka: its `quota.window.size.seconds`."""
FORGET_INTERVAL_S: Final = 1.0

BucketName: TypeAlias = tuple[Quota, str, str | Entity]
"""The quota, and the user and client id that share the bucket. A default in place of the client id
stands for those of one user that share a bucket because there are too many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The buckets of one client; None for what is not limited. Tokens are bytes, seconds and
    partitions. Clients may share buckets."""

    produce: TokenBucket | None = None
    fetch: TokenBucket | None = None
    requests: TokenBucket | None = None
    mutations: TokenBucket | None = None

    def produced(self, size_bytes: int, now_s: float) -> float:
        """Count a Produce request of this size. Returns how many seconds its client must wait."""
        if self.produce is None:
            return 0.0
        return min(self.produce.take(size_bytes, now_s), LONGEST_THROTTLE_S)

    def fetch_wait_s(self, now_s: float) -> float:
        """How many seconds the client must wait before it gets records; 0 if it gets some now."""
        if self.fetch is None:
            return 0.0
        if not self.fetch.wait_s(now_s, LEAST_SHARE):
            return 0.0
        return min(self.fetch.wait_s(now_s, SHARE_AFTER_WAIT), LONGEST_THROTTLE_S)

    def fetch_bytes(self, now_s: float) -> int | None:
        """How many bytes an answer to a Fetch may have now; None without a limit. The first batch
        is sent also if it is larger."""
        if self.fetch is None:
            return None
        self.fetch.fill(now_s)
        return max(floor(self.fetch.tokens), 1)

    def fetched(self, size_bytes: int, now_s: float) -> None:
        """Count the answer to a Fetch."""
        if self.fetch is not None:
            self.fetch.take(size_bytes, now_s)

    def took(self, spent_s: float, now_s: float) -> float:
        """Count the time that a request took. Returns how many seconds its client must wait."""
        if self.requests is None:
            return 0.0
        return min(self.requests.take(spent_s, now_s), LONGEST_REQUEST_THROTTLE_S)


class ClientQuotas:
    """The buckets of all limited clients of a broker."""

    MAX_BUCKETS: Final = 10_000
    """How many buckets there are before new client ids of a user share one. They may be without
    end, but users are not, nor are those with a quota of their own: nobody else uses up theirs."""

    def __init__(self) -> None:
        self.table = NO_QUOTAS
        self.is_active = False
        """Whether there is any quota."""
        self.version = 0
        """A number that is different when clients must get their `Limits` again."""
        self._buckets: dict[BucketName, TokenBucket] = {}
        self._forget_from_s = -inf

    def use(self, table: QuotaTable) -> None:
        """From now on these quotas apply. Buckets whose rate stays keep their debts."""
        self.table = table
        self.is_active = bool(table)
        self.version += 1
        if not table:
            self._buckets.clear()

    def limits(self, user: str, client_id: str, now_s: float) -> Limits | None:
        """The buckets of a client; None if it is not limited."""
        if len(self._buckets) + len(Quota) > self.MAX_BUCKETS:
            self._forget_full(now_s)
        # A client may choose any client id, also a very long one.
        names = user[:MAX_FIELD_LENGTH], client_id[:MAX_FIELD_LENGTH]
        found = [self._bucket(quota, *names, now_s) for quota in Quota]
        return Limits(*found) if any(found) else None

    def _bucket(self, quota: Quota, user: str, client_id: str, now_s: float) -> TokenBucket | None:
        """The bucket of a client for one quota; None if it is not limited."""
        found = self.table.find(quota, user, client_id)
        if found is None:
            return None
        rate, burst_s = found.rate, BURST_S
        if quota is Quota.REQUEST_PERCENTAGE:
            rate /= 100  # a hundred percent are one second per second
        elif quota is Quota.CONTROLLER_MUTATION_RATE:
            burst_s = MUTATION_BURST_S
        name: BucketName = quota, found.user, found.client_id
        is_full = len(self._buckets) >= self.MAX_BUCKETS
        if is_full and found.entity.is_default and name not in self._buckets:
            name = quota, user, found.entity
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket.full(rate, burst_s, now_s)
        elif bucket.per_s != rate:
            bucket.change_rate(rate, now_s)
        return bucket

    def _forget_full(self, now_s: float) -> None:
        """Forget full buckets, but not again at once: that takes some milliseconds."""
        if now_s < self._forget_from_s:
            return
        self._forget_from_s = now_s + FORGET_INTERVAL_S
        before = len(self._buckets)
        self._buckets = {
            known: bucket for known, bucket in self._buckets.items() if not bucket.is_full(now_s)
        }
        if len(self._buckets) < before:
            self.version += 1  # clients hold forgotten buckets: they get the new ones
