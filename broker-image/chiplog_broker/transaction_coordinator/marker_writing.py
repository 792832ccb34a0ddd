"""Writes transaction markers to the partitions that this broker leads.

The marker of a partition of `__consumer_offsets` is written by the coordinator of its groups,
because it decides which offsets of the transaction count.
"""

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.holding import call_when_safe
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_broker.ports.clock import Clock
from chiplog_core.groups.at import At
from chiplog_core.topic_name import CONSUMER_OFFSETS


class MarkerWriter:
    """Appends markers, and waits until the high watermark has passed them."""

    def __init__(self, replicas: Replicas, groups: Coordinator, clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    def write(self, at: At, marker: Marker, then: OnSafe) -> None:
        """Write a marker. Calls `then` with `none` once the marker is below the high watermark, or
        with the error for which it was refused or may be lost."""
        if at.topic == CONSUMER_OFFSETS:
            self._groups.append_marker(at.partition, marker, then)
            return
        try:
            partition = self._replicas.leader(at.topic, at.partition)
            appended = partition.append_marker(marker, self._clock.now_ms())
        except (PartitionError, *REFUSALS) as refused:
            then(code_of(refused))
            return
        call_when_safe(partition, appended.last_offset + 1, then)
