"""Reads all logs regularly, so that damage is found while other replicas are undamaged.

It reads one log after the other, from its start to its durable end, as fast as is necessary to read
all of them within the interval, but never faster than the limit. Damage is reported by the log that
is read.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.errors import StorageError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition

SLICE_BYTES = 128 * 1024
"""Bytes read in one slice; then other tasks run."""
_LONGEST_STEP_S = 1.0
"""After a longer pause, only the bytes of this time are read, so that there is no burst."""
_SIZES_KEPT_S = 2.0
"""The size of all logs is counted again after this time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of the scrub."""

    interval_s: float
    """The time in which all logs are to be read once."""
    max_bytes_per_s: float


class Scrubber:
    """Reads the logs of a directory, again and again."""

    def __init__(self, logs: Mapping[TopicPartition, PartitionLog], clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._remaining: list[TopicPartition] = []
        """The logs that this round has not read yet; the last one is being read, at `_offset`."""
        self._offset = 0
        self._due_bytes = 0.0
        """Bytes that should have been read by now and were not."""
        self._last_step_s = clock.monotonic_s()
        self._sized_s = float("-inf")
        """When `_total_bytes` was counted."""
        self._total_bytes = 0
        self.scrubbed_bytes = 0
        """Bytes read since the directory was opened."""
        self.rounds = 0
        """How often it reached the end of the last log."""

    async def advance(self, pace: Pace) -> None:
        """Read as much as is due since the last call. To be called often."""
        now_s = self._clock.monotonic_s()
        elapsed_s = min(now_s - self._last_step_s, _LONGEST_STEP_S)
        self._last_step_s = now_s
        rate = min(pace.max_bytes_per_s, self._size_bytes(now_s) / pace.interval_s)
        self._due_bytes += rate * elapsed_s
        while self._due_bytes >= 1:
            read_bytes = self._step(min(int(self._due_bytes), SLICE_BYTES))
            if not read_bytes:
                self._due_bytes = 0.0  # there is nothing to read
                return
            self._due_bytes -= read_bytes
            self.scrubbed_bytes += read_bytes
            await asyncio.sleep(0)

    def _step(self, max_bytes: int) -> int:
        """Read about `max_bytes` of the present or the next log; returns how many bytes.

        Returns 0 if none of the logs has anything to read.
        """
        # At most the rest of this round and one complete round, even if there is nothing to read.
        for _ in range(len(self._remaining) + len(self._logs) + 1):
            if not self._remaining:
                self._remaining = sorted(self._logs, reverse=True)
                self._offset = 0
                if not self._remaining:
                    return 0
            read_bytes, following = self._read(self._remaining[-1], max_bytes)
            if following is None:
                self._remaining.pop()
                self._offset = 0
                self.rounds += not self._remaining
            else:
                self._offset = following
            if read_bytes:
                return read_bytes
        return 0

    def _read(self, name: TopicPartition, max_bytes: int) -> tuple[int, int | None]:
        """Read from one log at `_offset`; returns the bytes read and the offset to continue at,
        which is None at the end of the log, or if it cannot be read now."""
        log = self._logs.get(name)
        if log is None or not log.is_writable:
            return 0, None  # deleted, or being truncated: the next round reads it if it exists
        try:
            return log.checks.scrub(self._offset, max_bytes)
        except StorageError:
            return 0, None  # the log itself has reported the error

    def _size_bytes(self, now_s: float) -> int:
        """The size of all logs, counted again if the last count is too old."""
        if now_s - self._sized_s >= _SIZES_KEPT_S:
            self._sized_s = now_s
            self._total_bytes = sum(log.size_bytes for log in self._logs.values())
        return self._total_bytes
