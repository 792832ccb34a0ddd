"""Measures how late the event loop runs its callbacks, which is a delay for all clients."""

from chiplog_broker.histogram import Histogram
from chiplog_broker.ports.clock import Clock

INTERVAL_S = 0.5


async def measure_lag(clock: Clock, lag: Histogram) -> None:
    """Sleep again and again, and record in `lag` by how many seconds each sleep was too long. Ends
    when it is cancelled."""
    while True:
        began_s = clock.monotonic_s()
        await clock.sleep(INTERVAL_S)
        lag.observe(max(clock.monotonic_s() - began_s - INTERVAL_S, 0.0))
