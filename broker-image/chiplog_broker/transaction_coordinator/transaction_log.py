"""Appends the records of transactions to a partition of `__transaction_state`."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from chiplog_broker.coordinator.holding import Safety, call_when_safe, until_safe
from chiplog_broker.coordinator.loading import load
from chiplog_broker.coordinator.read_barrier import MARKS, ReadBarrier
from chiplog_broker.groups.batches import read_mark
from chiplog_broker.partitions.errors import REFUSALS, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import OnSafe
from chiplog_broker.transaction_coordinator.errors import refusal_to_code
from chiplog_broker.transactions.fold import TransactionsState
from chiplog_broker.transactions.key import encode_key
from chiplog_broker.transactions.value import encode_value
from chiplog_core.transactions.answers import Present
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NewRecord, build_batch

logger = logging.getLogger(__name__)

LOG_INTERVAL_MS: Final = 10_000
"""A partition that refuses records refuses those of all transactions: one log line in this time."""
RETRY_S: Final = 0.1

OnStored = Callable[[str, StoredTransaction | None], None]


class _Pending(NamedTuple):
    """The last record of a transactional id, which is not below the high watermark yet."""

    record: StoredTransaction | None
    """None for a tombstone."""
    end_offset: int


class TransactionLog:
    """The log of one partition of `__transaction_state`, in one leader epoch.

    `state` is the result of the records below the high watermark. A transactional id has at most
    one record above it. `safety` delays answers until the records behind them are below it.
    """

    def __init__(
        self,
        partition: Partition,
        now_ms: Callable[[], int],
        ticks_ms: Callable[[], int],
        on_stored: OnStored,
    ) -> None:
        """The partition must be led here. `on_stored` is called with each record that was appended
        here, once the high watermark has passed it and the state has it."""
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.state = TransactionsState()
        self.safety = Safety(partition)
        self._barrier = ReadBarrier(partition, self.safety, self._append_mark)
        self._now_ms = now_ms
        self._ticks_ms = ticks_ms
        self._on_stored = on_stored
        self._pending: dict[str, _Pending] = {}
        """In the order of their offsets."""
        self._timer: asyncio.TimerHandle | None = None
        self._logged_ms = -LOG_INTERVAL_MS

    def check(self) -> None:
        """Raises `PartitionError` if the leader epoch of this object has ended, or the disk has
        failed."""
        self.partition.check_epoch(self.epoch)

    async def load(self) -> None:
        """Read the log, and wait until all of it is below the high watermark. Raises
        `PartitionError` if the leader epoch ends, `RecordsError` and `StorageError`.
        """
        end_offset = self.partition.log.end_offset
        self.state = await load(self.partition, TransactionsState)
        await until_safe(self.partition, end_offset, self.check)

    def present(self, transactional_id: str) -> Present:
        """What is stored of a transactional id, and whether a record of it is pending."""
        self._settle()
        return Present(
            stored=self.state.get(transactional_id), is_pending=transactional_id in self._pending
        )

    @property
    def id_count(self) -> int:
        """The approximate number of transactional ids."""
        return len(self.state) + len(self._pending)

    def append(self, transactional_id: str, record: StoredTransaction | None) -> Code:
        """Append the next record of a transactional id, or with None a tombstone. Returns `NONE` if
        it is in the log, else an error: then nothing has changed.

        The id must not have a pending record: the decision about this one did not know it.
        """
        assert transactional_id not in self._pending, "one record at a time"
        try:
            value = None if record is None else encode_value(record)
            end_offset = self._write(
                NewRecord(value, encode_key(transactional_id), self._now_ms()), transactional_id
            )
        except (PartitionError, *REFUSALS) as refused:
            self._log_refused(transactional_id, str(refused))
            return refusal_to_code(refused)
        self._pending[transactional_id] = _Pending(record, end_offset)
        call_when_safe(self.partition, end_offset, self._on_safe)
        return Code.NONE

    def when_current(self, respond: OnSafe, transactional_id: str) -> None:
        """As `ReadBarrier.when_current`, for the records of a transactional id."""
        self._barrier.when_current(respond, transactional_id)

    def _append_mark(self) -> ErrorCode:
        """Append a record without content. Returns `none` or an error."""
        try:
            self._write(read_mark(self._now_ms()), MARKS)
        except (PartitionError, *REFUSALS) as refused:
            self._log_refused(MARKS, str(refused))
            return ErrorCode(refusal_to_code(refused))
        return ErrorCode.none

    def _write(self, record: NewRecord, transactional_id: str) -> int:
        """Append a record. Returns the log end offset after it. Raises `PartitionError`,
        `RecordsError` and `StorageError`."""
        self.check()
        # `acks_all` means acks=all; the record has a key, as compaction needs it.
        appended = self.partition.append(
            memoryview(build_batch([record])), self._now_ms(), acks_all=True, keys_are_checked=True
        )
        end_offset = appended.last_offset + 1
        self.safety.appended(transactional_id, end_offset)
        return end_offset

    def give_up(self) -> None:
        """Wait for nothing more: this broker does not coordinate these transactions any more."""
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _on_safe(self, code: ErrorCode) -> None:
        """The high watermark has reached an appended record. With an error it may do so later: an
        isolated leader fails what waits, and continues to lead if a follower comes back."""
        if code is ErrorCode.none:
            self._settle()
        elif self._pending and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._wait_again)

    def _wait_again(self) -> None:
        """Wait for the last pending record again, unless the leader epoch has ended."""
        self._timer = None
        try:
            self.check()
        except PartitionError:
            return
        self._settle()
        if self._pending:
            last = next(reversed(self._pending.values()))
            call_when_safe(self.partition, last.end_offset, self._on_safe)

    def _settle(self) -> None:
        """Apply the records that are below the high watermark now."""
        while self._pending:
            transactional_id, pending = next(iter(self._pending.items()))
            if pending.end_offset > self.partition.high_watermark:
                return
            del self._pending[transactional_id]
            self.state.put(transactional_id, pending.record)
            self._on_stored(transactional_id, pending.record)

    def _log_refused(self, transactional_id: str, reason: str) -> None:
        """Log that a record was refused, at most once in `LOG_INTERVAL_MS`."""
        ticks_ms = self._ticks_ms()
        if ticks_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = ticks_ms
            extra = {"transactional_id": transactional_id, "reason": reason}
            logger.warning("transaction_record_refused", extra=extra)
