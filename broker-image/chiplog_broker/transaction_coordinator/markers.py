"""Which markers of a transaction are not written yet."""

from collections.abc import Callable, Iterable

from chiplog_broker.partitions.marker import Marker
from chiplog_core.groups.at import At


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
