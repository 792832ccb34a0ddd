"""Remembers that a partition just refused a batch for a temporary reason.

An idempotent producer has several batches in flight. If one is refused, and the reason is gone
before the next one arrives, the sequence number of the next one has a gap. The next one is refused
with the same error: librdkafka (2.x) reacts to a sequence gap by numbering all batches of all
partitions again, and then records that were stored but not acknowledged yet are stored twice. If
the refused batch was the first of its producer, the next one would even be accepted as the first,
and the refused one never.
"""

from chiplog_wire.protocol.errors import ErrorCode

ALIKE_S = 5.0
"""The time for which the following batches may be in flight."""


class Refusals:
    """The last refusal of a partition."""

    __slots__ = ("_at_s", "_code")

    def __init__(self) -> None:
        self._code, self._at_s = ErrorCode.none, 0.0

    def __bool__(self) -> bool:
        """Whether there may be a recent refusal."""
        return self._code is not ErrorCode.none

    def note(self, code: ErrorCode, now_s: float) -> None:
        """A batch was refused with this code; it may succeed when it is sent again."""
        self._code, self._at_s = code, now_s

    def recent_code(self, now_s: float) -> ErrorCode:
        """The code of the last refusal, if it was recent; else `none`."""
        if now_s - self._at_s >= ALIKE_S:
            self._code = ErrorCode.none
        return self._code
