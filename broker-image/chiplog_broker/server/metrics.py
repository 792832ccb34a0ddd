"""What is counted while requests are served: plain integers, nothing else.

Names, labels and families are made when a scrape comes (`exposition`).
"""

from chiplog_broker.histogram import Histogram
from chiplog_broker.server.memory import MemoryBudget
from chiplog_wire.protocol.apis import ApiKey


class ApiCounters:
    """One API: how many requests, how long they took, how large they were."""

    __slots__ = ("bytes_in", "bytes_out", "latency")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.latency = Histogram()


class RequestMetrics:
    """Requests by API, counted when they are answered; and connections."""

    def __init__(self) -> None:
        self.apis = {key: ApiCounters() for key in ApiKey}
        self.connections = 0
        self.connections_total = 0
        self.refused_total = 0
        self.violations_total = 0
        self.waiting_fetches = 0
        self.unsent_bytes = 0
        self.budgets: list[MemoryBudget] = []
        self.event_loop_lag = Histogram()
