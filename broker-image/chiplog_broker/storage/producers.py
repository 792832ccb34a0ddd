"""Idempotent producers: the last batches of each, so that none is stored twice or out of order.

These batches result from the log alone: they are the same on every replica and after every restart.
The time for which a producer has been idle does not. Timestamps of records do not show it: an
import may write old ones, and a producer's clock may be wrong. Neither does the wall clock, which
may be set. So a monotonic clock measures idle times while the process runs. The time between two
processes is unknown and counts as zero. So an idle producer may be remembered for too long, but it
is never forgotten early.

A producer that is not remembered here was idle for too long, or its records were deleted. It may
begin at any sequence number, with two exceptions, because a first batch could not be stored after a
later one (KAFKA-15591). If a batch of the producer was refused, it must begin with this batch or an
earlier one. For some seconds after it became possible that batches of unknown producers were
refused, every producer must begin at 0. If it begins with another number then, this batch is
refused, too.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chiplog_broker.storage.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    OvertakesRefusedError,
    UnverifiedTransactionError,
)
from chiplog_broker.storage.transactions import (
    TRANSACTION_MASK,
    EndedTransaction,
    LogTransactions,
    UnsafeEnd,
)
from chiplog_wire.records.batch import (
    CONTROL_MASK,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from chiplog_wire.records.control import EndMarker, read_markers
from chiplog_wire.records.writer import Producer

RETAINED_BATCHES = 5
"""The number of last batches that are remembered of each producer. A producer may have this many in
flight to one broker, and may send any of them again."""

MOST_REFUSED = 1_000
"""The first refused batch is remembered for at most this many producers of a partition. If there
are more, those that were refused longest ago are forgotten: their next batches are the least likely
to be still on their way."""

REMEMBERED_S = 30.0
"""The time within which a producer sends a refused batch again."""

MOST_IN_A_ROW = 2**30
"""Half of all sequence numbers, which wrap around at 2**31: a number that is ahead of another by
less than this distance is the later one."""

UNKNOWN_OFFSET = -1

NO_COORDINATOR_EPOCH = -1
NO_TRANSACTION = -1


class SentBatch(NamedTuple):
    """A batch in the log, with the sequence numbers that its producer gave to its records."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, header: BatchHeader, base_offset: int) -> "SentBatch":
        """The batch with this header, stored from `base_offset` on."""
        last_offset = base_offset + header.last_offset_delta
        return cls(
            header.base_sequence,
            header.last_sequence,
            base_offset,
            last_offset,
            header.max_timestamp_ms,
        )


class ProducerEntry:
    """The last batches of one producer."""

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
        """The number of records before `next_sequence` that are stored without a gap."""
        self.written_ms = 0
        """The value of `ProducerStates.time_ms` when it wrote last."""
        self.transaction_start = NO_TRANSACTION
        """The first offset of its open transaction; -1 if none is open."""
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        """That of its last end marker; -1 before the first."""

    @property
    def next_sequence(self) -> int:
        """The sequence number after the last batch; 0 without batches."""
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0

    def add(self, batch: SentBatch) -> None:
        """Add the producer's next batch in the log; `in_a_row` begins again after a gap."""
        count = batch.last_offset - batch.first_offset + 1
        continues = batch.first_sequence == self.next_sequence
        before = self.in_a_row if continues else 0
        self.in_a_row = min(before + count, MOST_IN_A_ROW)
        self.batches.append(batch)

    def add_all(self, headers: Sequence[BatchHeader]) -> None:
        """Add the producer's next batches, as `add` does for each."""
        following, in_a_row = self.next_sequence, self.in_a_row
        for header in headers:
            before = in_a_row if header.base_sequence == following else 0
            in_a_row = before + header.last_offset_delta + 1
            following = (header.last_sequence + 1) & MAX_SEQUENCE
        self.in_a_row = min(in_a_row, MOST_IN_A_ROW)
        for header in headers[-RETAINED_BATCHES:]:
            self.batches.append(SentBatch.of(header, header.base_offset))

    def forget_batches(self) -> None:
        """Forget all batches: a new producer epoch begins, whose sequence numbers begin again."""
        self.batches.clear()
        self.in_a_row = 0

    def earlier(self, first_sequence: int, last_sequence: int) -> SentBatch | None:
        """The stored batch with these sequence numbers; None if it is not known to be stored.

        The offset of a batch that is not among the last five any more is unknown. Then
        `first_offset` is -1, and `last_offset` the highest that the batch can have.
        """
        for batch in self.batches:
            if (batch.first_sequence, batch.last_sequence) == (first_sequence, last_sequence):
                return batch
        if not self.batches:
            return None
        oldest, after = self.batches[0], self.next_sequence
        # Distances back from `after`, in records, across the wrap of sequence numbers: of the
        # oldest remembered batch, and of the begin and the end of the batch in question.
        retained = (after - oldest.first_sequence) & MAX_SEQUENCE
        behind = (after - first_sequence) & MAX_SEQUENCE
        behind_end = (after - 1 - last_sequence) & MAX_SEQUENCE
        # It must be older than the remembered batches, and within the records without a gap.
        if not retained <= behind_end < behind <= self.in_a_row:
            return None
        last_offset = oldest.first_offset - 1
        return SentBatch(first_sequence, last_sequence, UNKNOWN_OFFSET, last_offset, -1)


def _is_after(sequence: int, other: int) -> bool:
    """Whether `sequence` is later than `other`; 0 follows the highest sequence number."""
    return 0 < (sequence - other) & MAX_SEQUENCE < MOST_IN_A_ROW


class _Refused(NamedTuple):
    """The first batch of a producer that was refused."""

    epoch: int
    """The producer's epoch."""
    sequence: int
    """The lowest sequence number that was refused."""
    is_checked: bool
    """Whether the checksum of the batch was verified: otherwise its epoch may be a changed one."""
    until_s: float
    """Until when this is remembered, in monotonic seconds."""


class FirstSequences:
    """The sequence numbers that producers without remembered batches must begin with, after batches
    were refused."""

    __slots__ = ("_refused", "all_at_0", "now_s")

    def __init__(self) -> None:
        self.all_at_0 = False
        """Whether every producer without remembered batches must begin at sequence number 0: a
        moment ago batches were refused, and it is not known of which producers."""
        self.now_s = 0.0
        """The present time in monotonic seconds; set by the caller before each batch."""
        self._refused: dict[int, _Refused] = {}
        """By producer id, ordered by the time of the refusal."""

    def __bool__(self) -> bool:
        """Whether any producer may be refused."""
        return self.all_at_0 or bool(self._refused)

    def forget_expired(self) -> None:
        """Forget the producers whose refused batches are too old now."""
        while self._refused:
            producer_id = next(iter(self._refused))
            if self._refused[producer_id].until_s > self.now_s:
                break
            del self._refused[producer_id]

    def refuses(self, header: BatchHeader) -> bool:
        """Whether a producer without remembered batches must not begin with this batch.

        If so, the batch is remembered: the producer must begin with it, not with a later one.
        """
        sequence = header.base_sequence
        if self.has_newer_epoch(header):
            return True
        refused = self._find(header)
        first = sequence if refused is None else refused.sequence
        # A moment after a refusal a producer may begin at 0 only. Later it may begin at any number
        # that is not after its first refused one.
        may_begin = sequence == 0 if self.all_at_0 else not _is_after(sequence, first)
        if may_begin:
            return False
        earlier = first if _is_after(sequence, first) else sequence
        if refused is None:
            self._remember(header, REMEMBERED_S, is_checked=True)
        else:
            self._refused[header.producer_id] = refused._replace(sequence=earlier)
        return True

    def note_refused(
        self, header: BatchHeader, remembered_s: float = REMEMBERED_S, *, is_checked: bool = True
    ) -> None:
        """Remember a batch that was refused for another reason than its sequence number.

        For the next `remembered_s` its producer must not begin with a later one. If the same batch
        is refused again, it is remembered from now on; a later one does not renew the memory of an
        earlier one. `is_checked`: its checksum was verified. The epoch of any other batch may have
        been changed on its way, so it takes the place of no other epoch's.
        """
        if header.producer_id < 0 or header.base_sequence < 0:
            return  # without a sequence number, or refused for it: the batch may be unchecked
        refused = self._remembered(header.producer_id)
        if refused is None or (is_checked and refused.epoch != header.producer_epoch):
            self._remember(header, remembered_s, is_checked=is_checked)
        elif refused.epoch == header.producer_epoch and not _is_after(
            header.base_sequence, refused.sequence
        ):
            # A batch that was refused for a while is not forgotten sooner because it was changed
            # on its way the next time.
            self._remember(
                header,
                max(remembered_s, refused.until_s - self.now_s),
                is_checked=is_checked or refused.is_checked,
            )

    def _remembered(self, producer_id: int) -> _Refused | None:
        """What was refused of this producer in any epoch, if it is not too old."""
        refused = self._refused.get(producer_id)
        return refused if refused is not None and refused.until_s > self.now_s else None

    def _find(self, header: BatchHeader) -> _Refused | None:
        """What was refused of this producer in this epoch, if it is not too old."""
        refused = self._remembered(header.producer_id)
        is_alike = refused is not None and refused.epoch == header.producer_epoch
        return refused if is_alike else None

    def has_newer_epoch(self, header: BatchHeader) -> bool:
        """Whether the producer has begun a newer epoch, of which a batch was refused: then this
        batch is a late one, whose records are sent again in the newer epoch."""
        refused = self._remembered(header.producer_id)
        if refused is None or not refused.is_checked:
            return False
        return refused.epoch > header.producer_epoch

    def _remember(self, header: BatchHeader, remembered_s: float, *, is_checked: bool) -> None:
        """Remember that this batch was refused now, unless one of a newer epoch of its producer is
        remembered. If there are too many producers, forget the one that was refused longest ago."""
        if self.has_newer_epoch(header):
            return
        self._refused.pop(header.producer_id, None)  # it gets a new place in the order
        refused = _Refused(
            header.producer_epoch, header.base_sequence, is_checked, self.now_s + remembered_s
        )
        self._refused[header.producer_id] = refused
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]


class ProducerStates:
    """All producers of one log, as of `end_offset`."""

    __slots__ = ("_clock_ms", "_entries", "end_offset", "time_ms", "transactions")

    def __init__(
        self,
        end_offset: int = 0,
        entries: Iterable[tuple[int, ProducerEntry]] = (),
        unsafe: Iterable[UnsafeEnd] = (),
    ) -> None:
        """`entries` and `unsafe` are the producers and the transactions with unsafe ends of a
        snapshot, as of `end_offset`."""
        self.end_offset = end_offset
        """The batches below this offset have been recorded here."""
        self.time_ms = 0
        """The time since these states were created or loaded. Only `pass_time` advances it."""
        self._clock_ms: int | None = None
        """The monotonic time of the last `pass_time`; None before the first."""
        # Ordered by the time of the last write, the oldest first.
        self._entries = dict(sorted(entries, key=lambda one: one[1].written_ms))
        self.transactions = LogTransactions(
            (
                (producer_id, entry.transaction_start)
                for producer_id, entry in self
                if entry.transaction_start != NO_TRANSACTION
            ),
            unsafe,
        )
        """The open transactions of these producers."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The producer's entry, if it is remembered."""
        return self._entries.get(producer_id)

    def pass_time(self, clock_ms: int) -> None:
        """Advance `time_ms` by the time since the last call; the first call does not advance it.

        `clock_ms` is the present time of a monotonic clock.
        """
        if self._clock_ms is not None:
            self.time_ms += clock_ms - self._clock_ms
        self._clock_ms = clock_ms

    @property
    def longest_idle_transaction_ms(self) -> int:
        """For how long the producer of an open transaction has not written here: the longest such
        time. 0 without open transactions."""
        idle = (
            self.time_ms - self._entries[producer_id].written_ms
            for producer_id in self.transactions.open_producers
        )
        return max(idle, default=0)

    def forget_idle(self, expiration_ms: int) -> None:
        """Forget producers that have been idle for `expiration_ms`, except those with an open
        transaction."""
        idle = []
        for producer_id, entry in self._entries.items():
            if self.time_ms - entry.written_ms < expiration_ms:
                break  # the entries are ordered by this time
            if entry.transaction_start == NO_TRANSACTION:
                idle.append(producer_id)
        for producer_id in idle:
            del self._entries[producer_id]

    def check(
        self, header: BatchHeader, first_sequences: FirstSequences | None = None
    ) -> SentBatch | None:
        """Check whether a leader may append this batch.

        Returns None if it may, and the stored batch if this one is a duplicate. `first_sequences`
        has the numbers that producers without remembered batches must begin with; None if they may
        begin with any. Raises `OutOfOrderSequenceError`, `OvertakesRefusedError`,
        `InvalidProducerEpochError`, and `InvalidTransactionStateError` for records outside the
        producer's open transaction.

        Only the last five batches are remembered, but a duplicate may be much older. After a change
        of the leader, a producer sends its next batches, any number of them, to the new leader,
        while earlier ones wait for the answer of the old leader. If that is an error, it sends them
        to the new leader, which may have them already. Kafka's clients take
        DUPLICATE_SEQUENCE_NUMBER for success then; after OUT_OF_ORDER_SEQUENCE_NUMBER they retry
        until the delivery timeout (KAFKA-5494).
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
            _check_transactional(header, entry)
            return None
        expected = entry.next_sequence
        if sequence == expected:
            if entry.transaction_start != NO_TRANSACTION:
                _check_transactional(header, entry)
            if first_sequences is not None and first_sequences.has_newer_epoch(header):
                raise InvalidProducerEpochError(
                    f"producer {header.producer_id} has begun a newer epoch than {entry.epoch}"
                )
            return None
        if (earlier := entry.earlier(sequence, header.last_sequence)) is not None:
            return earlier
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} sent sequence {sequence}, expected {expected}", expected
        )

    def check_of_coordinator(self, header: BatchHeader) -> None:
        """Check whether a leader may append this batch of a group coordinator: offsets in a
        transaction. It has no sequence numbers of the producer.

        Raises `InvalidProducerEpochError`, and `InvalidTransactionStateError` for records outside
        the producer's open transaction.
        """
        entry = self.get(header.producer_id)
        if entry is not None:
            if header.producer_epoch < entry.epoch:
                raise _old_epoch(header.producer_id, header.producer_epoch, entry)
            _check_transactional(header, entry)

    def check_begins_none(self, header: BatchHeader) -> None:
        """Check that this batch, which `check` has accepted, does not begin a transaction of its
        producer. Raises `UnverifiedTransactionError`."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if header.attributes & TRANSACTIONAL_MASK and not self.has_open(producer_id, epoch):
            raise UnverifiedTransactionError(
                f"producer {producer_id} with epoch {epoch} would begin a transaction that was not "
                "verified with its coordinator"
            )

    def has_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction here, in this epoch."""
        entry = self.get(producer_id)
        return (
            entry is not None
            and entry.epoch == producer_epoch
            and entry.transaction_start != NO_TRANSACTION
        )

    def check_marker(self, producer: Producer, marker: EndMarker, *, epoch_is_raised: bool) -> None:
        """Check whether a leader may append this end marker of a transaction of the producer.

        `epoch_is_raised`: the coordinator raises the producer's epoch with each transaction (the
        second generation, KIP-890). Then a marker of the present epoch belongs to the transaction
        before: it may be written again as long as none is open (KAFKA-19999), but it must not end
        the next one. Raises `InvalidProducerEpochError` and `CoordinatorFencedError`.
        """
        entry = self.get(producer.producer_id)
        if entry is None:
            return
        is_late = (
            epoch_is_raised
            and producer.epoch == entry.epoch
            and entry.transaction_start != NO_TRANSACTION
        )
        if producer.epoch < entry.epoch or is_late:
            raise _old_epoch(producer.producer_id, producer.epoch, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFencedError(
                f"producer {producer.producer_id} has a marker of coordinator epoch "
                f"{entry.coordinator_epoch}, not {marker.coordinator_epoch}"
            )

    def record(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None = None
    ) -> EndedTransaction | None:
        """Update the states with the next batch of the log, which begins at `base_offset`.

        `marker` is the content of a control batch. Returns the transaction that it has ended; None
        if it has ended none.
        """
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        entry = self._entries.pop(producer_id, None) or ProducerEntry()
        self._entries[producer_id] = entry
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.forget_batches()
        entry.written_ms = self.time_ms
        ended = None
        if header.attributes & TRANSACTION_MASK:
            ended = self.transactions.apply(header, base_offset, marker)
            if header.attributes & CONTROL_MASK:
                if marker is not None:
                    entry.transaction_start = NO_TRANSACTION
                    entry.coordinator_epoch = marker.coordinator_epoch
                return ended
            if entry.transaction_start == NO_TRANSACTION:
                entry.transaction_start = base_offset
        entry.add(SentBatch.of(header, base_offset))
        return ended

    def record_all(
        self, run: Sequence[BatchHeader], batches: memoryview
    ) -> Sequence[EndedTransaction]:
        """Update the states with the next batches of the log, as `record` does for each.

        `run` has the headers of `batches`. Returns the transactions that they have ended. A loop of
        its own, because a follower needs it for every batch: mostly, a batch is of the same
        producer and epoch as the one before it, and only its last batches are remembered.
        """
        entry, of_producer, of_epoch = None, NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        following: list[BatchHeader] = []
        markers: dict[int, EndMarker] | None = None
        ended_here: list[EndedTransaction] = []
        for header in run:
            if (
                header.producer_id != of_producer
                or header.producer_epoch != of_epoch
                or header.attributes & TRANSACTION_MASK
            ):
                if entry is not None:
                    entry.add_all(following)
                    following = []
                if markers is None and header.attributes & CONTROL_MASK:
                    markers = read_markers(batches, run)
                base_offset = header.base_offset
                marker = markers.get(base_offset) if markers else None
                ended = self.record(header, base_offset, marker)
                if ended is not None:
                    ended_here.append(ended)
                of_producer, of_epoch = header.producer_id, header.producer_epoch
                entry = self._entries.get(of_producer)
            elif entry is not None:
                following.append(header)
        if entry is not None:
            entry.add_all(following)
        self.end_offset = run[-1].last_offset + 1
        return ended_here


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    """Raise unless the batch is the first one (sequence number 0) of a newer producer epoch."""
    if header.producer_epoch < entry.epoch:
        raise _old_epoch(header.producer_id, header.producer_epoch, entry)
    if header.base_sequence != 0:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id} begins epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence}, expected 0",
            expected=0,
        )


def _check_transactional(header: BatchHeader, entry: ProducerEntry) -> None:
    """Raise `InvalidTransactionStateError` if the producer has an open transaction to which this
    batch does not belong."""
    if entry.transaction_start != NO_TRANSACTION and not header.attributes & TRANSACTIONAL_MASK:
        raise InvalidTransactionStateError(
            f"producer {header.producer_id} has an open transaction, which began at offset "
            f"{entry.transaction_start}, and sent records outside it"
        )


def _old_epoch(
    producer_id: int, producer_epoch: int, entry: ProducerEntry
) -> InvalidProducerEpochError:
    """The error for a batch or marker of an epoch that has ended."""
    return InvalidProducerEpochError(
        f"producer {producer_id} has epoch {entry.epoch}, not {producer_epoch}"
    )
