"""Remembers that a partition just refused a batch for a temporary reason.

An idempotent producer has several batches in flight. If one is refused, and the reason is gone
before the next one arrives, there is a gap before the sequence number of the next one. It is
refused with the same error, not with OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka (2.x) reacts to a
sequence gap by numbering all batches of all partitions again, and then records that were stored but
not acknowledged yet are stored twice. If the refused batch was the first of its producer, the next
one would even be accepted as the first one, and the refused batch could never be stored.

A refusal by this replica as the leader binds only the producer of the refused batch. What was
refused before its leadership began, here or by the last leader, is not known: so for some seconds
all unknown producers must begin at sequence number 0. No refusal extends these seconds. Otherwise a
producer that was forgotten could not go on as long as another one is refused again and again.
"""

from contextlib import suppress

from chiplog_broker.storage.producers import FirstSequences
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.errors import CorruptBatchError

ALIKE_S = 5.0
"""For this time after a refusal, batches that the producer sent before it knew may still arrive."""

REMEMBERED_S = 30.0
"""The time within which a producer sends a refused batch again."""


class Refusals:
    """The last temporary refusal of a partition, and the producers that it affects."""

    __slots__ = ("_at_s", "_code", "_unknown_at_s", "first_sequences")

    def __init__(self) -> None:
        self._code, self._at_s = ErrorCode.none, 0.0
        """The code of the last refusal, and its monotonic time; `none` if nothing is remembered."""
        self._unknown_at_s = 0.0
        """The monotonic time of the last call of `note_unknown`."""
        self.first_sequences = FirstSequences()
        """The batches that new producers must begin with, because they were refused here."""

    def __bool__(self) -> bool:
        """Whether there may be a recent refusal."""
        return self._code is not ErrorCode.none

    def note(self, code: ErrorCode, batch: memoryview, now_s: float) -> None:
        """Record that this batch was refused with this code; it may succeed when it is sent again.

        It may be a new producer's first one: until it is sent again, no later batch of this
        producer may be accepted in its place.
        """
        self._note(code, now_s)
        with suppress(CorruptBatchError):  # a batch without a header is never accepted
            self.first_sequences.note_refused(read_header(batch))

    def note_unknown(self, code: ErrorCode, now_s: float) -> None:
        """Record that batches of unknown producers may have been refused with this code.

        This must not be called while the replica accepts batches, except at the beginning of a
        leadership: each call extends the time in which all unknown producers must begin at 0.
        """
        self._note(code, now_s)
        self._unknown_at_s = now_s
        self.first_sequences.all_at_0 = True

    def _note(self, code: ErrorCode, now_s: float) -> None:
        self._code, self._at_s = code, now_s
        self._set_time(now_s)

    def _set_time(self, now_s: float) -> None:
        """Set the time of `first_sequences`, and forget what is too old there."""
        first_sequences = self.first_sequences
        first_sequences.now_s = now_s
        first_sequences.forget_before(now_s - REMEMBERED_S)
        if now_s - self._unknown_at_s >= ALIKE_S:
            first_sequences.all_at_0 = False

    def recent_code(self, now_s: float) -> ErrorCode:
        """The code of the last refusal, if it was at most `ALIKE_S` ago; else `none`.

        Also sets the time of `first_sequences`, and forgets what is too old.
        """
        self._set_time(now_s)
        if now_s - self._at_s < ALIKE_S:
            return self._code
        if not self.first_sequences:
            # No producer is remembered any more, so `__bool__` may say that nothing was refused.
            self._code = ErrorCode.none
        return ErrorCode.none
