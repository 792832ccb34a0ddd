"""Counters of requests and connections, as plain integers.

Names, labels and families of metrics are created at each scrape (`exposition`).
"""

from chiplog_broker.histogram import Histogram
from chiplog_broker.security.tls import TlsFiles
from chiplog_broker.server.memory import MemoryBudget
from chiplog_core.client_quotas.entities import Quota
from chiplog_wire.protocol.apis import ApiKey


class ApiCounters:
    """The requests of one API: their number, duration and size."""

    __slots__ = ("bytes_in", "bytes_out", "latency")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.latency = Histogram()


class ThrottleCounters:
    """How often and for how long clients were throttled because of one quota."""

    __slots__ = ("times", "total_s")

    def __init__(self) -> None:
        self.times = 0
        self.total_s = 0.0


class RequestMetrics:
    """Counters of answered requests by API, and of connections."""

    def __init__(self) -> None:
        self.apis = {key: ApiCounters() for key in ApiKey}
        self.connections = 0
        self.connections_total = 0
        self.refused_total = 0
        """Connections refused because of a limit."""
        self.failed_handshakes_total = 0
        """Connections closed because their TLS handshake failed."""
        self.violations_total = 0
        """Connections closed because their client violated the protocol."""
        self.waiting_fetches = 0
        self.unsent_bytes = 0
        """Bytes of answers that clients have not received yet."""
        self.budgets: list[MemoryBudget] = []
        """The memory budgets of connections."""
        self.certificates: dict[str, TlsFiles | None] = {}
        """Listener with TLS -> the certificate that it serves, and the CAs that it trusts; None
        until it is bound."""
        self.event_loop_lag = Histogram()
        self.throttled = {quota: ThrottleCounters() for quota in Quota}
        """Of all clients together: a series for each user would have no bound."""
