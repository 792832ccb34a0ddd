"""What a broker may hold, as a proposal takes it into account.

Source: ReplicaCapacityGoal and DiskCapacityGoal of Cruise Control. As there, the used part of a
volume is the sum of its replicas' sizes. What else is on the volume counts only as far as a replica
must fit into the free space.
"""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.ids import MAX_INT64
from chiplog_core.manifest.constraints import Range
from chiplog_core.model.broker_capacity import DEFAULT_MAX_DISK_PERCENT

Bytes = Annotated[int, Range(0, MAX_INT64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The limits of one broker. None if there is no limit, or the volume is not known."""

    max_replicas: Annotated[
        int | None, "How many replicas the broker may hold.", Range(1, MAX_INT64)
    ] = None
    internal_replicas: Annotated[
        int, "Replicas of internal topics that the broker holds.", Range(0, MAX_INT64)
    ] = 0
    max_disk_percent: Annotated[
        int, "How much of its volume its replicas may use, in percent.", Range(1, 100)
    ] = DEFAULT_MAX_DISK_PERCENT
    total_bytes: Annotated[Bytes | None, "Size of its volume."] = None
    free_bytes: Annotated[Bytes | None, "Free space on its volume."] = None
    log_bytes: Annotated[
        Bytes | None, "Size of all replicas on its volume, as the broker reported it."
    ] = None

    @property
    def max_bytes(self) -> int | None:
        """How many bytes its replicas may have; None if its volume is not known."""
        if self.total_bytes is None:
            return None
        return self.total_bytes * self.max_disk_percent // 100


UNLIMITED = Capacity()
