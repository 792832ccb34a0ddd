"""Idempotent producers: what each wrote last, so that nothing is stored twice or out of order.

The state is a fold over the log: same records, same state, on every replica and after
every restart. So nothing in it comes from a clock. A producer expires when the log's own
time, the largest timestamp seen, has moved on by `producer.id.expiration.ms` since its last
batch; for that, an entry remembers the log's time at that batch, not the batch's own
timestamp, which may lie years back in an import.

A producer that is not known may begin at any sequence number: its state expired, or its
records were deleted.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chiplog_broker.records.batch import (
    CONTROL_MASK,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from chiplog_broker.storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError

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

    __slots__ = ("batches", "coordinator_epoch", "epoch", "log_time_ms", "transaction_start")

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[SentBatch] = deque(maxlen=RETAINED_BATCHES)
        self.log_time_ms = NO_TIMESTAMP
        self.transaction_start = NO_TRANSACTION
        self.coordinator_epoch = NO_COORDINATOR_EPOCH


class ProducerStates:
    """All producers of one log, as of `end_offset`."""

    __slots__ = ("_entries", "end_offset", "expiration_ms", "log_time_ms")

    def __init__(self, expiration_ms: int, end_offset: int = 0) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = end_offset
        self.log_time_ms = NO_TIMESTAMP
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The producer's entry, unless it has expired."""
        entry = self._entries.get(producer_id)
        if entry is None or self.log_time_ms - entry.log_time_ms < self.expiration_ms:
            return entry
        if entry.transaction_start != NO_TRANSACTION:
            return entry
        del self._entries[producer_id]
        return None

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
        timestamp_ms = header.max_timestamp_ms
        self.log_time_ms = max(self.log_time_ms, timestamp_ms)
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return
        entry = self.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.log_time_ms = self.log_time_ms
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
                timestamp_ms,
            )
        )

    def restore(self, entries: Iterable[tuple[int, ProducerEntry]]) -> None:
        """Start from a snapshot. The log's time is at least that of its newest entry."""
        self._entries = dict(entries)
        for entry in self._entries.values():
            self.log_time_ms = max(self.log_time_ms, entry.log_time_ms)

    def drop_expired(self) -> None:
        """Forget those nobody will ask for, before they are written to a snapshot."""
        for producer_id in list(self._entries):
            self.get(producer_id)


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
