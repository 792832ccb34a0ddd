"""The speed of compaction: short steps, and a limit of bytes per second."""

from collections.abc import Callable
from typing import Final

from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.errors import CompactionAbortedError
from chiplog_wire.records.scan import RECORDS_PER_STEP

_BYTES_A_RECORD: Final = 256
"""This many bytes count as one more record in a step: they cost about the same time for reading,
checksums and copying."""
_SHORTEST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.5
"""A pass notices after this time at the latest that the broker stops."""


class Pace:
    """The speed of one pass. The work of a step is counted in records, not in time, so that
    simulations are reproducible."""

    __slots__ = ("_begin_s", "_bytes", "_bytes_per_second", "_clock", "_done", "_is_over")

    def __init__(
        self, clock: Clock, bytes_per_second: float, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """`bytes_per_second` limits reading and writing together. When `is_over` returns true, the
        next `pause` aborts the pass."""
        self._is_over = is_over
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._begin_s = clock.monotonic_s()
        self._bytes = 0
        """The bytes read and written since the pass began."""
        self._done = 0
        """The work since the last pause, as a number of records."""

    def moved(self, size_bytes: int) -> None:
        """Count bytes that were read or written, for the byte limit and for the next pause."""
        self._bytes += size_bytes
        self._done += size_bytes // _BYTES_A_RECORD + 1

    def is_due(self, records: int = 0) -> bool:
        """Count processed records, and return whether a pause is due."""
        self._done += records
        return self._done >= RECORDS_PER_STEP

    async def pause(self) -> None:
        """Let other tasks run, and wait while the pass is faster than its limit.

        Raises `CompactionAbortedError` if the pass is to end.
        """
        self._done = 0
        await self._clock.sleep(0)
        while not self._is_over() and self._ahead_s() >= _SHORTEST_WAIT_S:
            await self._clock.sleep(min(self._ahead_s(), _LONGEST_WAIT_S))
        if self._is_over():
            raise CompactionAbortedError("the broker stops")

    def _ahead_s(self) -> float:
        """By how many seconds the pass is ahead of its byte limit; negative if it is behind."""
        allowed_s = self._bytes / self._bytes_per_second
        return allowed_s - (self._clock.monotonic_s() - self._begin_s)
