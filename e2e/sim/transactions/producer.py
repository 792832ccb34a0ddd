"""A transactional producer of the first generation, which adds partitions before it writes to them.

After a request that stays without an answer it sends the request again. A late one could end or
join a later transaction, so most producers take a new epoch before their next transaction. All do
after a batch that they give up, or an error of the transaction.

Those of the second generation are in `second`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Final

from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from chiplog_wire.records.writer import Producer as ProducerState
from e2e.sim.clients import DUPLICATE, UNANSWERED, Client, Notebook
from e2e.sim.transactions.habits import TransactionHabits
from e2e.sim.transactions.history import (
    Fence,
    Initialized,
    Opening,
    Transaction,
    TransactionHistory,
)
from e2e.sim.transactions.wire import OF_GROUP, OF_TRANSACTION, Identity, TransactionWire
from e2e.sim.wire import UNREACHED, TopicPartition

GIVES_UP_S: Final = 15.0
"""As `delivery.timeout.ms`: how long a batch or another request of a transaction is sent again."""
NO_RETRY_SHARE: Final = 0.5
"""Share of batches without an answer that a producer does not send again: it aborts."""
LEFT_BEHIND_S: Final = 0.02
"""The longest time that a producer waits for an answer before it aborts."""
ABORTS_FIRST_SHARE: Final = 0.5
"""Share of the aborts that a producer of the first generation asks for before it takes a new
epoch."""
FENCED: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""Answers of coordinators to a producer whose transactional id has another one."""
ABORTABLE: Final = frozenset({*FENCED, ErrorCode.transaction_abortable})
"""Answers of partitions after which a new epoch is needed, which a fenced producer does not get."""
WRONG: Final = frozenset(
    {
        ErrorCode.invalid_txn_state,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
    }
)
"""Answers that a correct producer gets for no correct request."""
Send = Callable[[tuple[str, int]], Awaitable[int]]
"""Sends a request to the broker at an address; returns the error code."""


class Fenced(Exception):  # noqa: N818 - a name for what happened
    """Another process uses the transactional id, or the transaction timed out."""


class MustAbort(Exception):  # noqa: N818 - a name for what happened
    """The transaction cannot be committed; only a new epoch ends it for sure."""


class Transactor(Client):
    """One process that uses a transactional id."""

    is_stopping = False
    _has_own_epochs = False
    """Whether each transaction has an epoch of its own, so that no late request of another one can
    count for it."""

    def __init__(
        self,
        wire: TransactionWire,
        process: str,
        notebook: Notebook,
        habits: TransactionHabits,
        next_offset: Callable[[], int],
    ) -> None:
        """`next_offset` gives the offset that the next transaction commits, a higher one each
        time, also for other processes of the transactional id."""
        super().__init__(process, wire.bootstrap, wire.chance, notebook)
        self.wire = wire.wire
        self._asking = wire
        self._of_transactions = habits
        self._next_offset = next_offset
        self._reuses_epoch = self.chance.random() < habits.reuses_epoch_share
        self._who = Identity()
        self._has_unanswered = False
        """Whether a request of this epoch to a coordinator stayed without an answer."""
        self._transaction: Transaction | None = None
        """The present transaction; after its end, the last one."""
        self._coordinators: dict[int, tuple[str, int]] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._number = 0
        self._left_behind: set[asyncio.Task[None]] = set()
        """Requests whose answers it does not wait for."""
        self.committed_s = -inf
        """When it last got the answer to a commit."""

    @property
    def _history(self) -> TransactionHistory:
        return self.notebook.history.transactions

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        """Run transactions until stopped or fenced."""
        try:
            await self._init()
            while not self.is_stopping:
                try:
                    await self._run_one(partitions)
                except MustAbort:
                    await self._recover()
                else:
                    await self._prepare_next()
                await self._pause()
        except Fenced:
            self._note_fence(may_time_out=self._may_time_out)

    def _note_fence(self, *, may_time_out: bool) -> None:
        """Note that this process got an answer by which it is fenced; with `may_time_out` the cause
        may be that its transaction was open for too long."""
        now_s, last = self.notebook.now_s(), self._transaction
        open_s = 0.0 if last is None or last.ended_s < inf else now_s - last.began_s
        self._history.fences.append(
            Fence(
                at_s=now_s,
                transactional_id=self._asking.transactional_id,
                process=self.name,
                is_late=may_time_out and open_s >= self._of_transactions.timeout_s,
            )
        )

    @property
    def _may_time_out(self) -> bool:
        """Whether it may be fenced because its transaction has timed out."""
        return True

    async def _recover(self) -> None:
        """End a transaction that cannot be committed. Raises `Fenced`.

        Some producers first ask once for its abort, while their last batch may still be on its way.
        """
        who = self._who

        async def send(at: tuple[str, int]) -> int:
            error, _ = await self._asking.end(at, who, is_commit=False)
            return error

        if self.chance.random() < ABORTS_FIRST_SHARE:
            await self._attempt(OF_TRANSACTION, send)
        await self._init()

    async def _prepare_next(self) -> None:
        """Make sure that no late request of this transaction counts for the next one. Raises
        `Fenced`."""
        if self._has_unanswered and not self._reuses_epoch:
            await self._init()

    async def _pause(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, self._of_transactions.pause_s))

    # -- requests

    async def _init(self) -> None:
        """Get an identity: the first one, or the same with a higher epoch. Asks until it has it.

        Raises `Fenced`.
        """
        asked_s, before = self.notebook.now_s(), self._who
        is_new = before == Identity()

        async def send(at: tuple[str, int]) -> int:
            opening = Opening(self._asking.transactional_id, self.name, self.notebook.now_s())
            if is_new:
                self._history.openings.append(opening)
            error, found = await self._asking.init(at, before, self._of_transactions.timeout_s)
            opening.answered_s = self.notebook.now_s()
            if not error:
                self._who = found
            return error

        while (error := await self._attempt(OF_TRANSACTION, send)) != 0:
            if error in FENCED:
                raise Fenced
            if error in WRONG:
                self._refused("init", error)
            await self.back_off()
        self._sequences.clear()
        self._has_unanswered = False
        self._history.initialized.append(
            Initialized(
                asked_s=asked_s,
                at_s=self.notebook.now_s(),
                transactional_id=self._asking.transactional_id,
                process=self.name,
                producer_id=self._who.producer_id,
                epoch=self._who.epoch,
                is_new=is_new,
            )
        )

    async def _attempt(self, key_type: int, send: Send) -> int:
        """Send a request once to a coordinator, which is found first; returns the error code."""
        try:
            if key_type not in self._coordinators:
                error, at = await self._asking.coordinator(key_type)
                if error:
                    self.notebook.error(ErrorCode(error).name)
                    return error
                self._coordinators[key_type] = at
        except UNREACHED as unreached:
            self.notebook.error(type(unreached).__name__)
            return int(ErrorCode.coordinator_not_available)
        try:
            error = await send(self._coordinators[key_type])
        except UNREACHED as unreached:
            self.notebook.error(type(unreached).__name__)
            del self._coordinators[key_type]
            self._has_unanswered = not self._has_own_epochs
            return UNANSWERED
        if error:
            self.notebook.error(ErrorCode(error).name)
            if error != ErrorCode.concurrent_transactions:
                del self._coordinators[key_type]
        return error

    async def _ask(self, key_type: int, what: str, send: Send) -> None:
        """Send a request of the transaction until it is done. Raises `Fenced` and `MustAbort`."""
        began_s = self.notebook.now_s()
        while (error := await self._attempt(key_type, send)) != 0:
            if error in FENCED and key_type == OF_TRANSACTION:
                raise Fenced
            if error in FENCED:
                self._note_fence(may_time_out=True)
                raise MustAbort
            if error in WRONG:
                self._refused(what, error)
                raise MustAbort
            if error in ABORTABLE or self.notebook.now_s() - began_s > GIVES_UP_S:
                raise MustAbort
            await self.back_off()

    def _refused(self, what: str, error: int) -> None:
        """Note a correct request that was refused, unless a late one of an earlier transaction may
        have caused it."""
        if self._transaction is None or not self._transaction.may_get_late_requests:
            name = f"{self.name}/{self._number} {what} of {self._who}"
            self._history.refused.append((self.notebook.now_s(), name, ErrorCode(error).name))

    # -- transactions

    async def _run_one(self, partitions: Sequence[TopicPartition]) -> None:
        """Run one transaction. Raises `Fenced` and `MustAbort`."""
        chance, habits = self.chance, self._of_transactions
        self._number += 1
        self._transaction = transaction = Transaction(
            name=f"{self.name}/{self._number}",
            transactional_id=self._asking.transactional_id,
            process=self.name,
            producer_id=self._who.producer_id,
            epoch=self._who.epoch,
            began_s=self.notebook.now_s(),
            may_get_late_requests=self._has_unanswered,
        )
        self._history.transactions.append(transaction)
        chosen = chance.sample(list(partitions), chance.randint(1, len(partitions)))
        added = chance.randint(1, len(chosen))
        for some in (chosen[:added], chosen[added:]):
            if some:
                await self._write(transaction, some)
        if chance.random() < habits.offsets_share:
            await self._commit_offset(transaction, min(partitions))
        is_commit = chance.random() >= habits.abort_share
        await self._pause()
        await self._end(transaction, is_commit=is_commit)

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """End the transaction. Raises `Fenced` and `MustAbort`."""
        who = self._who
        if is_commit:
            transaction.commit_asked_s = self.notebook.now_s()
        else:
            transaction.abort_asked_s = self.notebook.now_s()

        async def send(at: tuple[str, int]) -> int:
            error, _ = await self._asking.end(at, who, is_commit=is_commit)
            return error

        await self._ask(OF_TRANSACTION, "end", send)
        self._ended(transaction)

    def _ended(self, transaction: Transaction) -> None:
        """Note that the end of the transaction was acknowledged."""
        transaction.ended_s = self.notebook.now_s()
        if transaction.is_committed:
            self.committed_s = transaction.ended_s

    async def _write(self, transaction: Transaction, some: Sequence[TopicPartition]) -> None:
        """Add these partitions, and write one or two batches to each."""
        who = self._who
        await self._ask(OF_TRANSACTION, "add", lambda at: self._asking.add(at, who, some))
        for partition in some:
            await self._write_to(transaction, partition)

    async def _write_to(self, transaction: Transaction, partition: TopicPartition) -> None:
        """Write one or two batches to a partition."""
        for _ in range(self.chance.randint(1, 2)):
            await self._pause()
            await self._produce(transaction, partition)

    async def _produce(self, transaction: Transaction, partition: TopicPartition) -> None:
        """Write one batch, with retries. Raises `MustAbort`."""
        sequence = self._sequences.get(partition, 0)
        count = self.chance.randint(1, 3)
        known = transaction.records.setdefault(str(partition), [])
        values = [f"{transaction.name}/{partition}/{len(known) + index}" for index in range(count)]
        known += values
        state = ProducerState(
            producer_id=self._who.producer_id, epoch=self._who.epoch, base_sequence=sequence
        )
        now_ms = self.notebook.now_ms()
        records = [NewRecord(one.encode(), timestamp_ms=now_ms) for one in values]
        batch = bytes(build_batch(records, BatchOptions(producer=state, transactional=True)))
        began_s = self.notebook.now_s()
        if self._overtakes():
            await self._leave_behind(self._try_to_produce(partition, batch))
            raise MustAbort
        while (error := await self._try_to_produce(partition, batch)) not in {0, DUPLICATE}:
            if error in WRONG:
                self._refused("produce", error)
            if error in FENCED:
                self._note_fence(may_time_out=True)
            is_late = self.notebook.now_s() - began_s > GIVES_UP_S
            is_not_retried = error == UNANSWERED and self.chance.random() < NO_RETRY_SHARE
            if is_late or is_not_retried or error in WRONG or error in ABORTABLE:
                raise MustAbort
            await self.back_off()
        self._sequences[partition] = sequence + count

    def _overtakes(self) -> bool:
        """Whether the producer aborts before it has the answer to its next request."""
        share = self._of_transactions.overtaking_share
        return bool(share) and self.chance.random() < share

    async def _leave_behind(self, sending: Awaitable[object]) -> None:
        """Send a request, and wait for its answer only for a moment. Its connection stays open:
        otherwise the broker would drop the request."""

        async def send() -> None:
            with suppress(*UNREACHED):
                await sending

        task = asyncio.ensure_future(send())
        self._left_behind.add(task)
        task.add_done_callback(self._left_behind.discard)
        await asyncio.wait([task], timeout=self.chance.uniform(0.0, LEFT_BEHIND_S))

    async def _try_to_produce(self, partition: TopicPartition, batch: bytes) -> int:
        """Send a batch once to the leader, if it is known; returns the error code."""
        at = self.wire.leader(partition)
        if at is None:
            return UNANSWERED
        try:
            error, _ = await self._asking.produce(at, partition, batch)
        except UNREACHED as unreached:
            self.notebook.error(type(unreached).__name__)
            return UNANSWERED
        if error:
            self.notebook.error(ErrorCode(error).name)
        return error

    async def _commit_offset(self, transaction: Transaction, place: TopicPartition) -> None:
        """Commit an offset of the group in this transaction. Raises `Fenced` and `MustAbort`."""
        who = self._who
        await self._ask(OF_TRANSACTION, "add offsets", lambda at: self._asking.add_offsets(at, who))
        await self._pause()
        await self._send_offset(transaction, place)

    async def _send_offset(self, transaction: Transaction, place: TopicPartition) -> None:
        """Send the offset that this transaction commits. Raises `Fenced` and `MustAbort`."""
        who, offset = self._who, self._next_offset()
        transaction.offset = offset
        known_at = self._coordinators.get(OF_GROUP)
        if self._of_transactions.overtakes_offsets and known_at is not None and self._overtakes():
            sending = self._asking.commit_offset(known_at, who, place, offset, transaction.name)
            await self._leave_behind(sending)
            raise MustAbort
        await self._ask(
            OF_GROUP,
            "commit offsets",
            lambda at: self._asking.commit_offset(at, who, place, offset, transaction.name),
        )
