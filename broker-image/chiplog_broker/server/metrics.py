"""What is counted while requests are served: plain integers, nothing else.

Names, labels and families are made when a scrape comes (`exposition.py`).
"""

import time
from bisect import bisect_left
from collections.abc import Callable

from chiplog_broker.protocol.apis import ApiKey

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class ApiCounters:
    """One API: how many requests, how long they took, how large they were."""

    __slots__ = ("buckets", "bytes_in", "bytes_out", "count", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.bytes_in = 0
        self.bytes_out = 0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class RequestMetrics:
    """Requests by API, counted when they are answered."""

    def __init__(self) -> None:
        self.apis = {key: ApiCounters() for key in ApiKey}
        self.connections = 0
        self.connections_total = 0
        self.violations_total = 0

    def started(self, key: ApiKey, size_bytes: int) -> Callable[[int], None]:
        """A request of `size_bytes` began; call the result with the size of its answer."""
        began_s = time.perf_counter()
        counters = self.apis[key]
        counters.bytes_in += size_bytes

        def done(answer_bytes: int) -> None:
            took_s = time.perf_counter() - began_s
            counters.count += 1
            counters.total_s += took_s
            counters.bytes_out += answer_bytes
            counters.buckets[bisect_left(BUCKETS_S, took_s)] += 1

        return done
