"""The transactions that a pass meets on its way through the log: which batches belong to aborted
ones, and which end markers have lost their records.

The rules are Kafka's. A pass removes the records of aborted transactions, and ends below the last
stable offset, so the outcome of each transaction that it meets is known. A marker stays as long as
a batch of its transaction comes before it, even one without records: otherwise the log would show a
transaction without an end. When no batch is left, the pass writes a delete horizon into the marker,
as into a batch with tombstones, and a pass after this time removes it.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from chiplog_broker.storage.transaction_index import AbortedTransaction
from chiplog_wire.records.batch import BatchHeader


class PassedTransactions:
    """The transactions that have begun and not ended before the next batch of a pass."""

    __slots__ = ("_aborted", "_coming", "_with_batches", "kept")

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTransaction]] = []
        """Aborted transactions that begin later: a heap by the first offset."""
        self._aborted: dict[int, AbortedTransaction] = {}
        """By producer id: the aborted transactions that have begun."""
        self._with_batches: set[int] = set()
        """The producer ids of transactions of which batches came."""
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions whose marker came after batches, for the index of the new
        segment; emptied by the caller."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the next segment; some may be known already."""
        for transaction in aborted:
            heappush(self._coming, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the next batch, which is transactional, belongs to an aborted transaction."""
        self._reach(header.last_offset)
        self._with_batches.add(header.producer_id)
        return header.producer_id in self._aborted

    def end(self, header: BatchHeader) -> bool:
        """The next batch is an end marker. Returns whether batches of its transaction came."""
        self._reach(header.last_offset)
        aborted = self._aborted.pop(header.producer_id, None)
        if header.producer_id not in self._with_batches:
            return False
        self._with_batches.remove(header.producer_id)
        if aborted is not None:
            self.kept.append(aborted)
        return True

    def _reach(self, offset: int) -> None:
        """Let the aborted transactions begin whose first offset is not above `offset`."""
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
