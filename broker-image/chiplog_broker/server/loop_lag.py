"""How late the event loop runs what is due: the time a client waits for somebody else."""

from chiplog_broker.histogram import Histogram
from chiplog_broker.ports.clock import Clock

INTERVAL_S = 0.5


async def measure_lag(clock: Clock, lag: Histogram) -> None:
    """Until cancelled, note by how much each sleep was too long."""
    while True:
        began_s = clock.monotonic_s()
        await clock.sleep(INTERVAL_S)
        lag.observe(max(clock.monotonic_s() - began_s - INTERVAL_S, 0.0))
