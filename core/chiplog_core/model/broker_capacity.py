"""How much each broker of a cluster may hold."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.manifest.constraints import Range

DEFAULT_MAX_DISK_PERCENT = 80
"""As `disk.capacity.threshold` of Cruise Control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapacity:
    """Limits for what Rebalances move to a broker, and for what is left when brokers are
    removed."""

    max_replicas: Annotated[
        int | None,
        "How many replicas a broker may hold, those of internal topics included; default: no "
        "limit.",
        Range(1, 1_000_000),
    ] = None
    max_disk_percent: Annotated[
        int,
        "How much of its volume a broker's replicas may use, in percent.",
        Range(1, 100),
    ] = DEFAULT_MAX_DISK_PERCENT
