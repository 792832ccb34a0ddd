"""Remembers that a partition just refused a batch for a temporary reason.

An idempotent producer has several batches in flight. If one is refused, and the reason is gone
before the next one arrives, there is a gap before the sequence number of the next one. It is
refused with the same error, not with OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka (2.x) reacts to a
sequence gap by numbering all batches of all partitions again, and then records that were stored but
not acknowledged yet are stored twice. If the refused batch was the first of its producer, the next
one would even be accepted as the first one, and the refused batch could never be stored.

A refusal by this replica as the leader binds only the producer of the refused batch. What was
refused before its leadership began, here or by the last leader, is not known: so for some seconds
a gap of any producer may come from there, and all unknown producers must begin at sequence number
0. No refusal extends these seconds. Otherwise a producer that was forgotten could not go on as long
as another one is refused again and again.
"""

from chiplog_broker.storage.producers import MOST_REFUSED, REMEMBERED_S, FirstSequences
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import BatchHeader, check_crc, read_header
from chiplog_wire.records.errors import CorruptBatchError

ALIKE_S = 5.0
"""For this time after a refusal, batches that the producer sent before it knew may still arrive."""


class Refusals:
    """The recent temporary refusals of a partition, and the producers that they affect."""

    __slots__ = ("_at_s", "_code", "_refused", "_unknown_at_s", "first_sequences")

    def __init__(self) -> None:
        self._code, self._at_s = ErrorCode.none, 0.0
        """The code of refusals whose producers are not known, and the monotonic time of the last
        one; `none` if there was none recently."""
        self._unknown_at_s = 0.0
        """The monotonic time of the last call of `note_unknown`."""
        self._refused: dict[int, tuple[ErrorCode, float]] = {}
        """Producer id -> (the code of its last refusal, the time of it), ordered by this time."""
        self.first_sequences = FirstSequences()
        """The batches that new producers must begin with, because they were refused here."""

    def __bool__(self) -> bool:
        """Whether there may be a recent refusal."""
        return self._code is not ErrorCode.none or bool(self._refused or self.first_sequences)

    def note(self, code: ErrorCode, batch: memoryview, now_s: float) -> None:
        """Record that this batch was refused with this code; it may succeed when it is sent again.

        It may be a new producer's first one: until it is sent again, no later batch of this
        producer may be accepted in its place.
        """
        header = self._note_first(batch, now_s, REMEMBERED_S)
        if header is None or header.producer_id < 0:
            return
        self._refused.pop(header.producer_id, None)  # it gets a new place in the order
        self._refused[header.producer_id] = code, now_s
        if len(self._refused) > MOST_REFUSED:
            forgotten_code, at_s = self._refused.pop(next(iter(self._refused)))
            # This producer may have a gap, too, so its refusal counts as one of an unknown
            # producer, if there was no later one of those.
            if self._code is ErrorCode.none or at_s > self._at_s:
                self._code, self._at_s = forgotten_code, at_s

    def note_invalid(self, batch: memoryview, now_s: float) -> None:
        """Record that this batch was refused because it is too large or its checksum is wrong.

        Clients send it again at once, or its parts with the same sequence numbers (Java). Until
        they do, a gap behind it is a true one, which has no code of its own.
        """
        self._note_first(batch, now_s, ALIKE_S)

    def note_unknown(self, code: ErrorCode, now_s: float) -> None:
        """Record that batches of unknown producers may have been refused with this code.

        This must not be called while the replica accepts batches, except at the beginning of a
        leadership: each call extends the time in which all unknown producers must begin at 0.
        """
        self._code = code
        self._at_s = self._unknown_at_s = now_s
        self._set_time(now_s)
        self.first_sequences.all_at_0 = True

    def _note_first(
        self, batch: memoryview, now_s: float, remembered_s: float
    ) -> BatchHeader | None:
        """Remember the batch in `first_sequences` for this time. Returns its header, or None if it
        has none: such a batch is never accepted."""
        self._set_time(now_s)
        try:
            header = read_header(batch)
        except CorruptBatchError:
            return None
        try:
            check_crc(batch, header)
            is_checked = True
        except CorruptBatchError:
            is_checked = False
        self.first_sequences.note_refused(header, remembered_s, is_checked=is_checked)
        return header

    def _set_time(self, now_s: float) -> None:
        """Set the time of `first_sequences`, and forget what is too old there."""
        first_sequences = self.first_sequences
        first_sequences.now_s = now_s
        first_sequences.forget_expired()
        if now_s - self._unknown_at_s >= ALIKE_S:
            first_sequences.all_at_0 = False

    def pass_time(self, now_s: float) -> None:
        """Set the time of `first_sequences`, and forget what is too old. To be called before each
        batch, and now and then."""
        self._set_time(now_s)
        if now_s - self._at_s >= ALIKE_S:
            self._code = ErrorCode.none
        while self._refused:
            producer = next(iter(self._refused))
            if now_s - self._refused[producer][1] < ALIKE_S:
                break
            del self._refused[producer]

    def code_of_gap(self, batch: memoryview) -> ErrorCode:
        """The code of the refusal from which the gap before this batch may come; `none` if there
        was no such refusal within `ALIKE_S` before the last `pass_time`."""
        header = read_header(batch)
        own = self._refused.get(header.producer_id)
        return self._code if own is None else own[0]
