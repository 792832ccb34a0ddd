"""The transactions of one log, and the last stable offset that follows from them (KIP-98).

A transaction is open from its first record to its end marker. Readers with `read_committed` get no
record at or above the first offset of the oldest open transaction. A transaction whose marker the
high watermark has not passed yet counts as open, too: another leader may lack the marker, and the
last stable offset must not go back.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from chiplog_wire.records.batch import CONTROL_MASK, MAX_OFFSET, TRANSACTIONAL_MASK, BatchHeader
from chiplog_wire.records.control import EndMarker

TRANSACTION_MASK = CONTROL_MASK | TRANSACTIONAL_MASK
"""The attributes of all batches that can begin or end a transaction."""

NO_UNSTABLE_OFFSET = MAX_OFFSET
"""In place of the first unstable offset of a log without open transactions: no offset reaches
it."""


class EndedTransaction(NamedTuple):
    """A transaction that an end marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The first offset of the oldest transaction that was still open after this one; if there was
    none, the offset after the marker."""
    is_commit: bool


class UnsafeEnd(NamedTuple):
    """A transaction that is ended by a marker which the high watermark may not have passed."""

    first_offset: int
    last_offset: int
    producer_id: int


class LogTransactions:
    """The open transactions of one log, as of some offset."""

    __slots__ = ("_open", "_unsafe", "first_unstable_offset", "high_watermark")

    def __init__(
        self, open_by_producer: Iterable[tuple[int, int]] = (), unsafe: Iterable[UnsafeEnd] = ()
    ) -> None:
        """`open_by_producer` has a producer id and the first offset of each open transaction."""
        # Ordered by the first offset: transactions begin in this order.
        self._open = dict(sorted(open_by_producer, key=lambda one: one[1]))
        self._unsafe: list[UnsafeEnd] = []
        """A heap by the first offset. Entries behind the first one may be outdated."""
        for end in unsafe:
            heappush(self._unsafe, end)
        self.high_watermark = 0
        """The last one of `stabilize`. When a log is read again, markers below it are not
        remembered."""
        self.first_unstable_offset = NO_UNSTABLE_OFFSET
        """Below it all transactions are decided; `NO_UNSTABLE_OFFSET` if all in the log are."""
        self._update()

    @property
    def unsafe(self) -> tuple[UnsafeEnd, ...]:
        """The ended transactions whose marker the high watermark may not have passed yet."""
        return tuple(sorted(self._unsafe))

    @property
    def open_producers(self) -> Iterable[int]:
        """The ids of the producers with an open transaction, that of the oldest one first."""
        return self._open.keys()

    def apply(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None
    ) -> EndedTransaction | None:
        """Apply the next batch of a producer, which is transactional or a control batch.

        `marker` is that of a control batch. Returns the transaction that it has ended, or None.
        """
        producer_id = header.producer_id
        if header.attributes & CONTROL_MASK:
            if marker is None or producer_id not in self._open:
                return None
            first_offset = self._open.pop(producer_id)
            if base_offset < self.high_watermark:
                self._update()
            else:
                heappush(self._unsafe, UnsafeEnd(first_offset, base_offset, producer_id))
            oldest = next(iter(self._open.values()), base_offset + 1)
            return EndedTransaction(
                producer_id, first_offset, base_offset, oldest, marker.is_commit
            )
        if producer_id not in self._open:
            self._open[producer_id] = base_offset
            self._update()
        return None

    def stabilize(self, high_watermark: int) -> None:
        """Forget the ended transactions whose markers are below the high watermark, also those
        whose markers are still to be applied. To be called when the high watermark has passed
        `first_unstable_offset`."""
        self.high_watermark = high_watermark
        while self._unsafe and self._unsafe[0].last_offset < high_watermark:
            heappop(self._unsafe)
        self._update()

    def _update(self) -> None:
        oldest = next(iter(self._open.values()), NO_UNSTABLE_OFFSET)
        unsafe = self._unsafe
        self.first_unstable_offset = min(oldest, unsafe[0].first_offset) if unsafe else oldest
