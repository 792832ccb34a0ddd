"""A transactional producer of the second generation (KIP-890).

Its Produce and TxnOffsetCommit add partitions themselves, and every EndTxn raises its epoch. So a
late request never counts for a later transaction: after errors it aborts and continues, and it
never needs another InitProducerId. As Java's client it writes to several partitions at once.
"""

import asyncio
from collections.abc import Sequence
from math import inf

from chiplog_wire.protocol.errors import ErrorCode
from e2e.sim.transactions.history import Given, Transaction
from e2e.sim.transactions.producer import FENCED, WRONG, Fenced, Transactor
from e2e.sim.transactions.wire import OF_TRANSACTION, Identity
from e2e.sim.wire import TopicPartition


class SecondTransactor(Transactor):
    """One process that uses a transactional id by the second generation of the protocol."""

    _has_own_epochs = True

    @property
    def _may_time_out(self) -> bool:
        """Only a commit is refused when its transaction has timed out; an abort is not."""
        return self._transaction is not None and self._transaction.commit_asked_s < inf

    async def _recover(self) -> None:
        """Abort the transaction, and continue with the epoch that this gives."""
        assert self._transaction is not None
        # Its commit was refused, if one was asked for.
        self._transaction.commit_asked_s = inf
        await self._end(self._transaction, is_commit=False)

    async def _prepare_next(self) -> None:
        """The epoch was raised already."""

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """End the transaction, however long that takes. Raises `Fenced`, also for a commit if the
        transaction was aborted because it had timed out."""
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
        """Commit an offset of the group in this transaction. Raises `Fenced` and `MustAbort`."""
        await self._pause()
        await self._send_offset(transaction, place)
