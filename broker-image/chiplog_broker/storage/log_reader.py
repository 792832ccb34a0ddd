"""Reading a log: batches from an offset, and offsets by time. Synchronous, from the page cache."""

from enum import IntEnum
from typing import NamedTuple

from chiplog_broker.ports.disk import File
from chiplog_broker.storage.errors import OffsetOutOfRangeError, RecordsTruncatedError
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.segment import Segment
from chiplog_broker.storage.timestamps import (
    MovedError,
    SearchReader,
    TimestampOffset,
    first_at_or_after,
    may_hold_newest,
    newest_in,
)
from chiplog_broker.storage.transaction_index import AbortedTransaction
from chiplog_wire.steps import Steps, run_steps

_SEARCHES = 5
"""A search is tried this many times: it starts again if segments were truncated, compacted or
deleted."""


class LogSlice(NamedTuple):
    """Consecutive complete batches in one file. Valid until the next await."""

    file: File
    position: int
    size_bytes: int
    """0: there is no batch at this offset yet."""
    next_offset: int
    """The offset of the next read."""

    def read(self) -> bytes:
        """The batches, copied to memory."""
        return self.file.read(self.position, self.size_bytes)

    def after(self, size_bytes: int) -> "LogSlice":
        """The rest of this slice without its first `size_bytes`."""
        return self._replace(
            position=self.position + size_bytes, size_bytes=self.size_bytes - size_bytes
        )

    def read_into(self, buffer: memoryview) -> int:
        """Read the batches into the beginning of a buffer that is large enough."""
        return self.file.read_into(self.position, buffer[: self.size_bytes])


class ListOffset(IntEnum):
    """The timestamps in ListOffsets that mean a position instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class LogReader:
    """Reads one log."""

    __slots__ = ("_checks", "_state")

    def __init__(self, state: LogState, checks: LogChecks) -> None:
        self._state = state
        self._checks = checks

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool = True
    ) -> LogSlice:
        """Complete batches of one segment, from the one that contains `offset`.

        They end at or before `up_to_offset`, and have at most `max_bytes` together. With `min_one`
        the first batch is returned even if it is larger. The slice is empty if there is no batch.
        Raises `OffsetOutOfRangeError`.
        """
        state = self._state
        state.check_open()
        if not state.log_start_offset <= offset <= state.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {state.partition} is not within "
                f"{state.log_start_offset} to {state.end_offset}"
            )
        segment = state.segments.segment_for(offset)
        if offset >= up_to_offset or offset == state.end_offset:
            return LogSlice(segment.log, 0, 0, offset)
        checks = self._checks
        with checks.checking(segment):
            found = segment.slice_from(offset, max_bytes, up_to_offset, min_one=min_one)
            if found.size_bytes:
                checks.check_slice(segment, found.position, found.size_bytes, offset)
        return LogSlice(segment.log, *found)

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of which records between `offset` and `end_offset` may be, in
        the order of their markers.

        All records below `end_offset` must be of decided transactions.
        """
        segments = self._state.segments
        with self._checks.checking(segments.active):
            return segments.aborted_transactions(offset, end_offset)

    def offset_for_timestamp(self, timestamp_ms: int, up_to_offset: int) -> TimestampOffset | None:
        """The answer to ListOffsets: the first record with at least this timestamp, below
        `up_to_offset`; None if there is none.

        `timestamp_ms` may also be a `ListOffset`, for example -1 for the latest offset.
        """
        return run_steps(self.find_timestamp(timestamp_ms, up_to_offset))

    def find_timestamp(self, timestamp_ms: int, up_to_offset: int) -> Steps[TimestampOffset | None]:
        """Search like `offset_for_timestamp`, in steps between which other tasks can run: a search
        may read many batches.

        Raises `RecordsTruncatedError` if the log changes again and again.
        """
        state = self._state
        state.check_open()
        match timestamp_ms:
            case ListOffset.LATEST:
                offset = min(up_to_offset, state.end_offset)
                return TimestampOffset(-1, offset, state.epochs.epoch_at(offset))
            case ListOffset.EARLIEST:
                offset = state.log_start_offset
                return TimestampOffset(-1, offset, state.epochs.epoch_at(offset))
        for _ in range(_SEARCHES):
            try:
                found = yield from self._search(timestamp_ms)
            except MovedError:
                yield None
            else:
                return found if found is not None and found.offset < up_to_offset else None
        raise RecordsTruncatedError(f"{state.partition} changed during a search for a timestamp")

    # --- inner workings ----------------------------------------------------------

    def _search(self, timestamp_ms: int) -> Steps[TimestampOffset | None]:
        """One search. Raises `MovedError` if the log changed during it, and `LogClosedError`."""
        state = self._state
        cut_count = state.cut_count

        def check(segment: Segment) -> None:
            """Raise if the segment, or the end of the log, was removed since the search began."""
            state.check_open()
            if state.cut_count != cut_count or state.is_truncating or segment.retired:
                raise MovedError

        reader = SearchReader(self._checks.read_batch, check)
        if timestamp_ms == ListOffset.MAX_TIMESTAMP:
            return (yield from self._newest(reader))
        return (yield from self._first_at_or_after(timestamp_ms, reader))

    def _newest(self, reader: SearchReader) -> Steps[TimestampOffset | None]:
        """The first record with the largest timestamp of the log; None if the log is empty."""
        state = self._state
        best: TimestampOffset | None = None
        for segment in may_hold_newest(state.segments.as_list(), state.log_start_offset):
            with self._checks.checking(segment):
                found = yield from newest_in(segment, state.log_start_offset, reader)
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
        return best

    def _first_at_or_after(
        self, timestamp_ms: int, reader: SearchReader
    ) -> Steps[TimestampOffset | None]:
        """The first record with at least this timestamp; None if there is none."""
        start_offset = self._state.log_start_offset
        for segment in self._state.segments.as_list():
            if segment.end_offset > start_offset:
                with self._checks.checking(segment):
                    found = yield from first_at_or_after(
                        segment, timestamp_ms, start_offset, reader
                    )
                if found is not None:
                    return found
        return None
