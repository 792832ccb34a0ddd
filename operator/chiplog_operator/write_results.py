"""The API server's answers to writes for admin clients, kept as long as a client may wait."""

from chiplog_core.observed.world import WriteResult
from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import Clock

KEPT_S = 600.0
"""Results are kept for longer than any client waits for its request."""


class WriteResults:
    """The results of writes for admin clients, by cluster and request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._results: dict[ClusterKey, dict[str, tuple[float, WriteResult]]] = {}

    def add(self, cluster: ClusterKey, request_id: str, result: WriteResult) -> None:
        """Keep the result of a client's request."""
        self._results.setdefault(cluster, {})[request_id] = (self._clock.monotonic_s(), result)

    def of(self, cluster: ClusterKey) -> dict[str, WriteResult]:
        """The results of one cluster by request id. Those older than `KEPT_S` are dropped."""
        now_s = self._clock.monotonic_s()
        kept = {
            request_id: (since_s, result)
            for request_id, (since_s, result) in self._results.get(cluster, {}).items()
            if now_s - since_s < KEPT_S
        }
        self._results[cluster] = kept
        return {request_id: result for request_id, (_, result) in kept.items()}
