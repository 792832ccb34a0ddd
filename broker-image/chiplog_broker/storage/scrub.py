"""Reads all logs regularly, so that damage is found while other replicas are intact.

It reads one log after the other, from its start to its durable end, as fast as is necessary to read
all of them within the interval, but never faster than the limit. A damaged log reports itself.
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
"""Longer pauses are not made up for."""
_SIZES_KEPT_S = 2.0


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
        self._offset = 0
        self._due_bytes = 0.0
        self._last_step_s = clock.monotonic_s()
        self._sized_s = float("-inf")
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
        """Read some bytes; returns 0 if a whole round found none."""
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
        log = self._logs.get(name)
        if log is None or not log.is_writable:
            return 0, None  # gone, or being truncated: the next round sees it
        try:
            return log.checks.scrub(self._offset, max_bytes)
        except StorageError:
            return 0, None  # the log has reported it

    def _size_bytes(self, now_s: float) -> int:
        if now_s - self._sized_s >= _SIZES_KEPT_S:
            self._sized_s = now_s
            self._total_bytes = sum(log.size_bytes for log in self._logs.values())
        return self._total_bytes
