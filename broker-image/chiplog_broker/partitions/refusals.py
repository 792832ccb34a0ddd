"""What a partition refused a moment ago, for a reason that passes.

An idempotent producer has several batches under way. Where one is refused and the reason passes
before the next arrives, that one does not follow what is stored. It is refused alike: librdkafka
(2.x) takes a gap for a reason to number everything anew, in all partitions, and what is stored and
was not acknowledged yet is stored a second time then. If the refused batch was the first of its
producer, the next one would even be taken as the first, and the refused one never.
"""

from chiplog_wire.protocol.errors import ErrorCode

ALIKE_S = 5.0
"""As long as a batch may have been on its way."""


class Refusals:
    """The last one of a partition."""

    __slots__ = ("_at_s", "_code")

    def __init__(self) -> None:
        self._code, self._at_s = ErrorCode.none, 0.0

    def __bool__(self) -> bool:
        """Whether there may be one that is not long ago."""
        return self._code is not ErrorCode.none

    def note(self, code: ErrorCode, now_s: float) -> None:
        """A batch was refused that may be taken when it is sent again."""
        self._code, self._at_s = code, now_s

    def recent_code(self, now_s: float) -> ErrorCode:
        """What the answer was, if it is not long ago; else `none`."""
        if now_s - self._at_s >= ALIKE_S:
            self._code = ErrorCode.none
        return self._code
