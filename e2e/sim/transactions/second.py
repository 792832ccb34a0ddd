"""A transactional producer of the second generation (KIP-890).

Its Produce and TxnOffsetCommit add partitions themselves, and every EndTxn raises its epoch. So a
late request never counts for a later transaction: after errors it aborts and continues, and it
never needs another InitProducerId. As Java's client it writes to several partitions at once.
"""

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Final

from chiplog_wire.protocol.errors import ErrorCode
from e2e.sim.transactions.history import Given, Transaction
from e2e.sim.transactions.producer import (
    FENCED,
    WRONG,
    Doubtful,
    Fenced,
    Transactor,
)
from e2e.sim.transactions.wire import OF_TRANSACTION, Identity
from e2e.sim.wire import TopicPartition

OVER: Final = frozenset({ErrorCode.invalid_txn_state})
"""The answer to a commit of a transaction that the coordinator has aborted after its timeout."""


class SecondTransactor(Transactor):
    """One process that uses a transactional id by the second generation of the protocol."""

    _may_time_out = False

    async def _recover(self) -> None:
        """Abort the transaction, and continue with the epoch that this gives."""
        assert self._transaction is not None
        # Its commit was refused, if one was asked for.
        self._transaction.commit_asked_s = inf
        await self._end(self._transaction, is_commit=False)

    async def _prepare_next(self) -> None:
        """The epoch was raised already."""

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """End the transaction, however long that takes. Raises `Fenced`, and `Doubtful` if it was
        aborted because it had timed out."""
        who, found = self._who, Identity()
        if is_commit:
            transaction.commit_asked_s = self.notebook.now_s()
        else:
            transaction.abort_asked_s = self.notebook.now_s()

        async def send(at: tuple[str, int]) -> int:
            nonlocal found
            error, found = await self._asking.end(at, who, is_commit=is_commit)
            return error

        while (error := await self._attempt(OF_TRANSACTION, send)) != 0:
            if error in FENCED:
                raise Fenced
            open_s = self.notebook.now_s() - transaction.began_s
            is_over = is_commit and error in OVER and open_s >= self._of_transactions.timeout_s
            if is_over:
                raise Doubtful
            if error in WRONG:
                self._refused("commit" if is_commit else "abort", error)
                raise Fenced
            await self.back_off()
        self._ended(transaction)
        if found == who:
            self._refused("the epoch after the end", ErrorCode.invalid_producer_epoch)
        self._who = found
        self._sequences.clear()
        self._history.given.append(
            Given(self.notebook.now_s(), self._asking.transactional_id, self.name, *found)
        )

    async def _write(self, transaction: Transaction, some: Sequence[TopicPartition]) -> None:
        """Write one or two batches to each of these partitions, at the same time."""
        writing = [asyncio.ensure_future(self._write_to(transaction, one)) for one in some]
        try:
            await asyncio.gather(*writing)
        finally:
            for one in writing:
                one.cancel()
            await asyncio.gather(*writing, return_exceptions=True)

    async def _commit_offset(self, transaction: Transaction, place: TopicPartition) -> None:
        """Commit an offset of the group in this transaction. Raises `Fenced` and `Doubtful`."""
        await self._pause()
        await self._send_offset(transaction, place)
