"""Idempotent producers: what each wrote last, so that nothing is stored twice or out of order.

The batches are a fold over the log: same records, same batches, on every replica and after every
restart. How long a producer has been idle is no part of it: the log has only the records' own
times, which an import takes from years back and a wrong clock from years ahead, and the wall
clock steps. So idleness is what a monotonic clock has measured while this state was kept. A
process that starts does not know for how long it was away, so it counts that as no time. An idle
producer may be remembered for too long, but it is never forgotten early.

A producer that is not known may begin at any sequence number: it was idle for too long, or its
records were deleted before this replica began. For some seconds after a batch was refused it must
begin at 0: the refused batch may have been its first, which would never be taken after a later one
(KAFKA-15591). If it does not, it must begin with the first batch that is refused for this reason.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chiplog_broker.storage.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    OvertakesRefusedError,
)
from chiplog_wire.records.batch import (
    CONTROL_MASK,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    TRANSACTIONAL_MASK,
    BatchHeader,
)

RETAINED_BATCHES = 5
"""As many as a producer may have in flight to one broker, so any of them may come again."""

MOST_REFUSED = 1_000
"""Producers whose first refused batch is remembered."""

MOST_IN_A_ROW = 2**30
"""Half of all sequence numbers: a batch is either behind the next one or ahead of it."""

UNKNOWN_OFFSET = -1

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

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "in_a_row",
        "transaction_start",
        "written_ms",
    )

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: deque[SentBatch] = deque(maxlen=RETAINED_BATCHES)
        self.in_a_row = 0
        """How many records, up to the last one, are known to be stored without a gap."""
        self.written_ms = 0
        """When it wrote last, on the scale of `ProducerStates.time_ms`."""
        self.transaction_start = NO_TRANSACTION
        self.coordinator_epoch = NO_COORDINATOR_EPOCH

    @property
    def next_sequence(self) -> int:
        """What follows the last batch; 0 where there is none."""
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0

    def add(self, batch: SentBatch) -> None:
        """Its next batch in the log."""
        count = batch.last_offset - batch.first_offset + 1
        before = self.in_a_row if batch.first_sequence == self.next_sequence else 0
        self.in_a_row = min(before + count, MOST_IN_A_ROW)
        self.batches.append(batch)

    def forget_batches(self) -> None:
        """A new epoch begins."""
        self.batches.clear()
        self.in_a_row = 0

    def earlier(self, first_sequence: int, last_sequence: int) -> SentBatch | None:
        """The stored batch of these sequence numbers, None where nothing says that there is one.

        Of a batch that is no longer among the last five, the offset is unknown. `last_offset` is
        then the highest that it can have.
        """
        for batch in self.batches:
            if (batch.first_sequence, batch.last_sequence) == (first_sequence, last_sequence):
                return batch
        if not self.batches:
            return None
        oldest, after = self.batches[0], self.next_sequence
        retained = (after - oldest.first_sequence) & MAX_SEQUENCE
        behind = (after - first_sequence) & MAX_SEQUENCE
        behind_end = (after - 1 - last_sequence) & MAX_SEQUENCE
        if not retained <= behind_end < behind <= self.in_a_row:
            return None
        last_offset = oldest.first_offset - 1
        return SentBatch(first_sequence, last_sequence, UNKNOWN_OFFSET, last_offset, -1)


def _is_after(sequence: int, other: int) -> bool:
    """Whether it is the later one; after the highest sequence number comes 0."""
    return 0 < (sequence - other) & MAX_SEQUENCE < MOST_IN_A_ROW


class FirstSequences:
    """The sequence numbers with which producers that are not known must begin, after a refusal."""

    __slots__ = ("_refused", "all_at_0", "now_s")

    def __init__(self) -> None:
        self.all_at_0 = False
        """Whether it is not known yet what was refused."""
        self.now_s = 0.0
        """The time of the next batch, by a monotonic clock."""
        self._refused: dict[tuple[int, int], tuple[int, float]] = {}
        """Producer id and epoch -> the first sequence number that was refused, and when that
        began. Those that began first come first."""

    def __bool__(self) -> bool:
        return self.all_at_0 or bool(self._refused)

    def forget_before(self, time_s: float) -> None:
        """Forget refusals that began at this time or before."""
        while self._refused:
            producer = next(iter(self._refused))
            if self._refused[producer][1] > time_s:
                break
            del self._refused[producer]

    def refuses(self, header: BatchHeader) -> bool:
        """Whether a producer that is not known may not begin with this batch.

        The producer's later batches are not taken before this one then.
        """
        producer, sequence = (header.producer_id, header.producer_epoch), header.base_sequence
        first, since_s = self._refused.get(producer, (sequence, self.now_s))
        may_begin = sequence == 0 if self.all_at_0 else not _is_after(sequence, first)
        if may_begin:
            return False
        if producer in self._refused or len(self._refused) < MOST_REFUSED:
            earlier = first if _is_after(sequence, first) else sequence
            self._refused[producer] = (earlier, since_s)
        return True


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

    def check(
        self, header: BatchHeader, first_sequences: FirstSequences | None = None
    ) -> SentBatch | None:
        """Whether a leader may append this batch; the earlier one if it is a duplicate.

        `first_sequences`: with which a producer that is not known must begin; None if with any.

        It may be one of long ago. A producer that sees a new leader sends its next batches there,
        any number of them, while those before wait for the old leader's answer. That may be an
        error, for batches that the new leader has. Kafka's clients take
        DUPLICATE_SEQUENCE_NUMBER for success then; OUT_OF_ORDER_SEQUENCE_NUMBER they retry until
        their time is up (KAFKA-5494). Raises `OutOfOrderSequenceError`,
        `OvertakesRefusedError` and `InvalidProducerEpochError`.
        """
        entry = self.get(header.producer_id)
        sequence = header.base_sequence
        if entry is None:
            if first_sequences is not None and first_sequences.refuses(header):
                raise OvertakesRefusedError(
                    f"producer {header.producer_id} begins with sequence {sequence}, and an "
                    "earlier batch may have been refused"
                )
            return None
        if header.producer_epoch != entry.epoch:
            _check_new_epoch(header, entry)
            return None
        expected = entry.next_sequence
        if sequence == expected:
            return None
        if (earlier := entry.earlier(sequence, header.last_sequence)) is not None:
            return earlier
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {sequence}, expected {expected}"
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
            entry.forget_batches()
        entry.written_ms = self.time_ms
        if header.attributes & CONTROL_MASK:
            entry.transaction_start = NO_TRANSACTION
            return
        if header.attributes & TRANSACTIONAL_MASK and entry.transaction_start == NO_TRANSACTION:
            entry.transaction_start = base_offset
        entry.add(
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
            f"with sequence {header.base_sequence}, expected 0"
        )
