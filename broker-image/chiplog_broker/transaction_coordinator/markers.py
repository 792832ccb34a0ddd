"""Transaction markers, and which of them are not written yet."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chiplog_core.groups.at import At
from chiplog_core.transactions.stored import SECOND_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker that ends a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of `__transaction_state`."""
    transaction_version: int = 0
    """2 if the producer's epoch was raised for this marker (KIP-890), else 0."""

    @property
    def epoch_is_raised(self) -> bool:
        """Whether the marker has a higher epoch than the transaction that it ends."""
        return self.transaction_version >= SECOND_GENERATION


class UnwrittenMarkers:
    """The markers of one transaction, until each partition has its own."""

    __slots__ = ("_then", "is_over", "marker", "partitions")

    def __init__(self, marker: Marker, partitions: Iterable[At], then: Callable[[], None]) -> None:
        """`then` is called once, when the last marker is written."""
        self.marker = marker
        self.partitions = set(partitions)
        """The partitions whose marker is not written yet."""
        self._then = then
        self.is_over = False
        """Whether nothing more has to be written."""

    def written(self, at: At) -> None:
        """The marker is in this partition, below its high watermark, or needs no writing."""
        self.partitions.discard(at)
        self.check_complete()

    def check_complete(self) -> None:
        """Call `then` if all markers are written."""
        if not self.partitions and not self.is_over:
            self.is_over = True
            self._then()

    def give_up(self) -> None:
        """Send no more of them: this broker does not coordinate the transaction any more."""
        self.is_over = True
