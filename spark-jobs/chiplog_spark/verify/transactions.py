"""Checks the transactions of one replica: end markers, the last stable offset, and the list of
aborted transactions that its broker keeps in the `.txnindex` files of the segments.

A reader with `READ_COMMITTED` depends on two answers of the broker, which do not follow from a
single batch: where the last stable offset is, and which transactions are aborted. Both follow from
the end markers in the log (KIP-98), so the job computes them from the batches. A transaction is
open from its first batch to the marker of its producer. The last stable offset is the first offset
of the oldest open transaction, or without one the end; aborted are the batches of a transaction
that ends with an abort marker.

A marker without a transaction is legitimate: the producer had added the partition, and written
nothing. So is a transaction whose first batches were deleted. Batches without records were
compacted, so their transactions have ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import UNKNOWN, Batch, Control, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_wire.records.batch import NO_PRODUCER_ID, BatchHeader
from chiplog_wire.records.control import read_marker

DELIVERED: Final = 0
SKIPPED: Final = 1
"""Values of `Batch.skipped`."""


def control_of(header: BatchHeader, data: memoryview) -> Control:
    """What a batch is for transactions. Without the right checksum the result has no meaning."""
    if not header.is_control:
        return Control.RECORDS
    if not header.record_count:
        return Control.EMPTY
    marker = read_marker(data, header)
    is_usual = (
        header.is_transactional
        and header.record_count == 1
        and header.producer_id != NO_PRODUCER_ID
    )
    if marker is None or not is_usual:
        return Control.UNREADABLE
    return Control.COMMIT if marker.is_commit else Control.ABORT


@dataclass(slots=True)
class _Open:
    """A transaction that has no end marker yet."""

    first_offset: int
    epoch: int
    delivered: int = UNKNOWN
    """The first offset that readers get, by the broker's list; -1 if there is none."""
    skipped: int = UNKNOWN
    """The first offset that readers skip."""


@dataclass(slots=True)
class Transactions:
    """Checks one replica, batch after batch in the order of offsets; then call `finish`."""

    facts: PartitionFacts
    replica: int
    expected: int
    """The base offset of the next batch, unless compaction has removed it."""
    is_whole: bool = False
    """Whether all batches of the replica below the end offset are read."""
    _open: dict[int, _Open] = field(default_factory=dict)
    """By producer id."""

    def forget(self) -> None:
        """Batches were not read: the state of their transactions is unknown."""
        self._open.clear()
        self.is_whole = False

    def check_next(self, batch: Batch) -> Iterator[Finding]:
        """Yields findings on the transaction that the batch ends, if it does."""
        is_gap = batch.base_offset > self.expected and not self.facts.compacts
        self.expected = max(self.expected, batch.last_offset + 1)
        if is_gap or batch.stored_crc != batch.computed_crc:
            self.forget()
        if batch.stored_crc != batch.computed_crc:
            return
        if batch.control != Control.RECORDS:
            yield from self._end(batch)
        elif batch.is_transactional and batch.record_count:
            opened = self._open.get(batch.producer_id)
            if opened is None:
                opened = _Open(batch.base_offset, batch.producer_epoch)
                self._open[batch.producer_id] = opened
            opened.epoch = max(opened.epoch, batch.producer_epoch)
            if batch.skipped == DELIVERED and opened.delivered == UNKNOWN:
                opened.delivered = batch.base_offset
            elif batch.skipped == SKIPPED and opened.skipped == UNKNOWN:
                opened.skipped = batch.base_offset

    def finish(self) -> Iterator[Finding]:
        """Yields a finding if the replica's last stable offset is not that of its batches."""
        known = self.facts.replica(self.replica)
        if not self.is_whole or known is None or not known.in_sync:
            return
        by_offset = {one.first_offset: producer for producer, one in self._open.items()}
        stable = min(by_offset, default=self.facts.end_offset)
        if known.stable_offset > stable:
            message = (
                f"the last stable offset is {known.stable_offset}, but the transaction of producer"
                f" {by_offset[stable]} that begins at offset {stable} is open: readers with"
                " read_committed get its records"
            )
            yield self._finding(Check.LAST_STABLE_OFFSET, stable, message)
        elif UNKNOWN < known.late_stable_offset < stable:
            late = known.late_stable_offset
            message = (
                f"the last stable offset is {late}, but all transactions below offset {stable} have"
                " ended: readers with read_committed wait for records that they could get"
            )
            yield self._finding(Check.LAST_STABLE_OFFSET, late, message)

    def _end(self, batch: Batch) -> Iterator[Finding]:
        """Check a control batch, and the transaction that it ends."""
        at = batch.base_offset
        opened = self._open.pop(batch.producer_id, None)
        is_empty = batch.control == Control.EMPTY
        if batch.control == Control.UNREADABLE or (is_empty and not self.facts.compacts):
            message = f"the control batch at offset {at} is not an end marker"
            yield self._finding(Check.TRANSACTION_MARKER, at, message)
            return
        if opened is None or is_empty:
            return
        if batch.producer_epoch < opened.epoch:
            message = (
                f"the end marker at offset {at} has epoch {batch.producer_epoch} of producer"
                f" {batch.producer_id}, but its transaction, which begins at offset"
                f" {opened.first_offset}, has epoch {opened.epoch}"
            )
            yield self._finding(Check.TRANSACTION_MARKER, at, message)
        if batch.control == Control.ABORT and opened.delivered != UNKNOWN:
            yield from self._index_finding(opened.delivered, at, "is aborted", "does not list")
        if batch.control == Control.COMMIT and opened.skipped != UNKNOWN:
            yield from self._index_finding(opened.skipped, at, "is committed", "lists")

    def _index_finding(self, offset: int, end: int, what: str, lists: str) -> Iterator[Finding]:
        """A finding if a transaction is aborted and not in the broker's list, or the reverse."""
        known = self.facts.replica(self.replica)
        if known is None or not known.in_sync:
            return
        message = (
            f"the batch at offset {offset} is of a transaction that {what} at offset {end}, but the"
            f" broker {lists} it among the aborted ones (.txnindex)"
        )
        yield self._finding(Check.TRANSACTION_INDEX, offset, message)

    def _finding(self, check: Check, offset: int, message: str) -> Finding:
        facts = self.facts
        return Finding(check, facts.topic, facts.partition, offset, self.replica, message)
