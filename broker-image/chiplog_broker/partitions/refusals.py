"""Remembers that a partition just refused a batch for a temporary reason.

An idempotent producer has several batches in flight. If one is refused, and the reason is gone
before the next one arrives, there is a gap before the sequence number of the next one. It is
refused with the same error, not with OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka (2.x) reacts to a
sequence gap by numbering all batches of all partitions again, and then records that were stored but
not acknowledged yet are stored twice. If the refused batch was the first of its producer, the next
one would even be accepted as the first one, and the refused batch could never be stored.
"""

from chiplog_broker.storage.producers import FirstSequences
from chiplog_wire.protocol.errors import ErrorCode

ALIKE_S = 5.0
"""For this time after a refusal, batches that the producer sent before it knew may still arrive."""

REMEMBERED_S = 30.0
"""The time within which a producer sends a batch again that was refused for its sequence number."""


class Refusals:
    """The last temporary refusal of a partition, and the producers that it affects."""

    __slots__ = ("_at_s", "_code", "first_sequences")

    def __init__(self) -> None:
        self._code, self._at_s = ErrorCode.none, 0.0
        """The code of the last refusal, and its monotonic time; `none` if nothing is remembered."""
        self.first_sequences = FirstSequences()
        """The batches that new producers must begin with, because they were refused here."""

    def __bool__(self) -> bool:
        """Whether there may be a recent refusal."""
        return self._code is not ErrorCode.none

    def note(self, code: ErrorCode, now_s: float) -> None:
        """Record that a batch was refused with this code; it may succeed when it is sent again."""
        self.first_sequences.forget_before(now_s - REMEMBERED_S)
        self._code, self._at_s = code, now_s
        # The refused batch may be a new producer's first one: until it is sent again, no batch of
        # a new producer with a higher sequence number may be accepted in its place.
        self.first_sequences.all_at_0 = True

    def recent_code(self, now_s: float) -> ErrorCode:
        """The code of the last refusal, if it was at most `ALIKE_S` ago; else `none`.

        Also sets the time of `first_sequences`, and forgets what is too old.
        """
        first_sequences = self.first_sequences
        first_sequences.now_s = now_s
        first_sequences.forget_before(now_s - REMEMBERED_S)
        if now_s - self._at_s < ALIKE_S:
            return self._code
        first_sequences.all_at_0 = False
        if not first_sequences:
            # No producer is remembered any more, so `__bool__` may say that nothing was refused.
            self._code = ErrorCode.none
        return ErrorCode.none
