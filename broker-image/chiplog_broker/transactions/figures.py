"""Counters and figures of the transactions that this broker coordinates, as plain numbers.

Names and families of metrics are created at each scrape (`server.exposition`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import StoredTransaction


class TransactionCounters:
    """Counted since the broker started."""

    __slots__ = ("aborted", "committed", "timed_out")

    def __init__(self) -> None:
        self.committed = 0
        """Transactions that were committed, and all of whose markers are written."""
        self.aborted = 0
        """Transactions that were aborted, and all of whose markers are written."""
        self.timed_out = 0
        """Transactions that were aborted because of their timeout."""

    def completed(self, prepared: StoredTransaction) -> None:
        """All markers of this decided transaction are written. An abort without a transaction,
        which only raises the epoch, does not count."""
        if not prepared.partitions:
            return
        if prepared.state is TransactionState.PREPARE_COMMIT:
            self.committed += 1
        else:
            self.aborted += 1


class TransactionFigures(NamedTuple):
    """What there is at one moment."""

    ids: int
    """Transactional ids that are remembered."""
    open: int
    """Transactions that are neither committed nor aborted."""
    oldest_open_ms: int
    """For how long the oldest of them has been open; 0 if there is none."""
    decided: int
    """Transactions that are committed or aborted, and lack markers."""
    oldest_decided_ms: int
    """How long ago the first of them was decided; 0 if there is none."""
    unwritten_markers: int
    """Partitions that still have to get their marker."""


def figures(
    *, ids: int, unfinished: Iterable[StoredTransaction], unwritten_markers: int, now_ms: int
) -> TransactionFigures:
    """The figures at `now_ms`, in milliseconds since 1970, as the stored times. `unfinished` are
    the transactions that are not complete."""
    open_ms, decided_ms = [], []
    for stored in unfinished:
        if stored.state is TransactionState.ONGOING:
            open_ms.append(max(now_ms - stored.start_timestamp_ms, 0))
        else:
            decided_ms.append(max(now_ms - stored.last_update_timestamp_ms, 0))
    return TransactionFigures(
        ids=ids,
        open=len(open_ms),
        oldest_open_ms=max(open_ms, default=0),
        decided=len(decided_ms),
        oldest_decided_ms=max(decided_ms, default=0),
        unwritten_markers=unwritten_markers,
    )
