"""Idempotent producers: what each wrote last, so that nothing is stored twice or out of order.

The batches are a fold over the log: same records, same batches, on every replica and after every
restart. How long a producer has been idle is no part of it: the log has only the records' own
times, which an import takes from years back and a wrong clock from years ahead, and the wall
clock steps. So idleness is what a monotonic clock has measured while this state was kept. A
process that starts does not know for how long it was away, so it counts that as no time. An idle
producer may be remembered for too long, but it is never forgotten early.

A producer that is not known may begin at any sequence number: it was idle for too long, or its
records were deleted before this replica began.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chiplog_broker.storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from chiplog_wire.records.batch import (
    CONTROL_MASK,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_MASK,
    BatchHeader,
)

RETAINED_BATCHES = 5
"""As many as a producer may have in flight, so any of them may come again."""

NO_COORDINATOR_EPOCH = -1
NO_TRANSACTION = -1


class SentBatch(NamedTuple):
    """A batch in the log, as its producer numbered it."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """What one producer wrote last."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "transaction_start", "written_ms")

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[SentBatch] = deque(maxlen=RETAINED_BATCHES)
        self.written_ms = 0
        """When it wrote last, on the scale of `ProducerStates.time_ms`."""
        self.transaction_start = NO_TRANSACTION
        self.coordinator_epoch = NO_COORDINATOR_EPOCH


class ProducerStates:
    """All producers of one log, as of `end_offset`."""

    __slots__ = ("_clock_ms", "_entries", "end_offset", "time_ms")

    def __init__(
        self, end_offset: int = 0, entries: Iterable[tuple[int, ProducerEntry]] = ()
    ) -> None:
        """`entries` are those of a snapshot, as of `end_offset`."""
        self.end_offset = end_offset
        self.time_ms = 0
        """For how long this state has been kept. Only `pass_time` moves it, never a record."""
        self._clock_ms: int | None = None
        # Those that wrote least recently come first.
        self._entries = dict(sorted(entries, key=lambda one: one[1].written_ms))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The producer's entry, if it is remembered."""
        return self._entries.get(producer_id)

    def pass_time(self, clock_ms: int) -> None:
        """Count the time since the last call, by a monotonic clock; the first call counts none."""
        if self._clock_ms is not None:
            self.time_ms += clock_ms - self._clock_ms
        self._clock_ms = clock_ms

    def forget_idle(self, expiration_ms: int) -> None:
        """Forget those that have been idle for so long, unless a transaction of theirs is open."""
        idle = []
        for producer_id, entry in self._entries.items():
            if self.time_ms - entry.written_ms < expiration_ms:
                break
            if entry.transaction_start == NO_TRANSACTION:
                idle.append(producer_id)
        for producer_id in idle:
            del self._entries[producer_id]

    def check(self, header: BatchHeader) -> SentBatch | None:
        """Whether a leader may append this batch; the earlier one if it is a duplicate."""
        entry = self.get(header.producer_id)
        if entry is None:
            return None
        sequence = header.base_sequence
        if header.producer_epoch != entry.epoch:
            _check_new_epoch(header, entry)
            return None
        expected = (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE if entry.batches else 0
        if sequence == expected:
            return None
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == sequence and batch.last_sequence == last_sequence:
                return batch
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {sequence}, {expected} is next"
        )

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """Fold in one batch, which stands in the log at `base_offset`."""
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return
        entry = self._entries.pop(producer_id, None) or ProducerEntry()
        self._entries[producer_id] = entry
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.written_ms = self.time_ms
        if header.attributes & CONTROL_MASK:
            entry.transaction_start = NO_TRANSACTION
            return
        if header.attributes & TRANSACTIONAL_MASK and entry.transaction_start == NO_TRANSACTION:
            entry.transaction_start = base_offset
        entry.batches.append(
            SentBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp_ms,
            )
        )


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.producer_epoch < entry.epoch:
        raise InvalidProducerEpochError(
            f"producer {header.producer_id} has epoch {entry.epoch}, not {header.producer_epoch}"
        )
    if header.base_sequence != 0:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} begins epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence}"
        )
