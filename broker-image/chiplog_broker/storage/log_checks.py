"""Verifies everything that is read from the disk, and closes a log that is damaged.

Records that are not synced yet were checked before the append and are still in memory, so with
`Fsync` they are not checked again. All other records are checked at every read, and regularly by
the scrub. The first damaged batch closes the log: nothing more is read or appended, and the
directory is notified.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from chiplog_broker.storage.checking import Checked, History, batch_end, check_batches
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.locating import DamageLocation, locate_damage
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import BatchHeader, iter_batches
from chiplog_wire.records.errors import CorruptBatchError, DamagedBatchError

_CHUNK_BYTES = 2**20
_buffer = memoryview(bytearray(_CHUNK_BYTES))
"""The buffer for chunks. A check contains no await, so all logs can share one buffer. Reusing
memory avoids page faults, which were a third of the time of a check."""


class LogChecks:
    """Checks what is read from one log, and closes the log if it is damaged."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def scrub(self, offset: int, max_bytes: int) -> tuple[int, int | None]:
        """Check durable batches from `offset` on, within one segment, about `max_bytes` of them.

        Returns the bytes checked and the offset to continue at, which is None at the end of the
        log. (A position would not do: a truncation may change it.) Raises `DamagedLogError`, and
        `LogClosedError` if the log is closed.
        """
        state = self._state
        state.check_open()
        durable_end = state.durable_end_offset
        offset = max(offset, state.segments.first.base_offset)
        if offset >= durable_end:
            return 0, None
        segment = state.segments.segment_for(offset)
        with self.checking(segment):
            start = segment.position_of(offset)
            end = segment.position_of(min(durable_end, segment.end_offset))
            if start >= end:
                # The rest of this segment is not durable yet, or was removed.
                return 0, None if segment is state.segments.active else segment.end_offset
            position, following = start, offset
            while position < min(start + max_bytes, end):
                rest_bytes = start + max_bytes - position
                _, checked = self._check_chunk(segment, position, end, following, rest_bytes)
                position, following = position + checked.size_bytes, checked.next_offset
        return position - start, following

    def finished_batches(
        self, segment: Segment, offset: int, chunk_bytes: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The checked batches of a finished segment, from the one that contains `offset`.

        Yields header and bytes; the bytes are a view that is valid until the next step. Reads
        `chunk_bytes` at a time, or one batch if it is larger. Raises `DamagedBatchError`,
        `OSError`.
        """
        buffer = memoryview(bytearray(chunk_bytes))
        position, end = segment.position_of(offset), segment.size_bytes
        while position < end:
            data, checked = self._check_chunk(segment, position, end, offset, chunk_bytes, buffer)
            for start, header in iter_batches(data):
                yield header, data[start : start + header.size_bytes]
            position, offset = position + checked.size_bytes, checked.next_offset

    def mark_damaged(self, why: str) -> None:
        """Mark the log as damaged because of a comparison with other replicas (`why`).

        As after damage found here, nothing is read or appended any more.
        """
        self._close_log(DamagedLogError(why))

    # --- for the rest of the log ---------------------------------------------------

    @contextmanager
    def checking(self, segment: Segment) -> Iterator[None]:
        """A context for reads of a segment: a damaged batch closes the log, and an I/O error takes
        the directory offline. Both are raised as a `StorageError`."""
        try:
            yield
        except CorruptBatchError as error:
            raise self.found_damaged(segment, error) from error
        except OSError as error:
            self._state.health.read_failed(error)

    def check_slice(self, segment: Segment, position: int, size_bytes: int, offset: int) -> None:
        """Check complete batches, of which the first contains `offset`. Raises
        `DamagedBatchError`."""
        state = self._state
        if state.is_synced_before_ack and offset >= state.sync.durable_end_offset:
            return  # not synced yet, so still in memory as they were appended
        end = position + size_bytes
        while position < end:
            _, checked = self._check_chunk(segment, position, end, offset)
            position, offset = position + checked.size_bytes, checked.next_offset

    def read_batch(self, segment: Segment, position: int, size_bytes: int, offset: int) -> bytes:
        """Read and check one complete batch, which contains `offset`. Raises
        `DamagedBatchError`."""
        data = segment.log.read(position, size_bytes)
        try:
            check_batches(memoryview(data), offset, self._history(segment))
        except DamagedBatchError as error:
            raise DamagedBatchError(str(error), position, error.offset) from error
        return data

    def found_damaged(self, segment: Segment, error: CorruptBatchError) -> DamagedLogError:
        """Close the log because of a damaged batch in this segment; returns the error to raise.

        If the log is closed as damaged already, the first error is returned.
        """
        state = self._state
        if state.damage is None:
            location = self._locate(segment, error)
            at_byte = "" if location.position is None else f" at byte {location.position}"
            at_offset = "" if location.offset is None else f", offset {location.offset}"
            path = segment.log_path
            offset = segment.base_offset if location.offset is None else location.offset
            why = f"{path}{at_byte}{at_offset}: {location.why}"
            return self._close_log(
                DamagedLogError(why, file=path, offset=offset, is_cut=location.is_cut)
            )
        return state.damage

    def end_log(self, segment: Segment, offset: int, why: str) -> DamagedLogError:
        """Close the log because the append at `offset` left it inconsistent; returns the error to
        raise."""
        path = segment.log_path
        return self._close_log(DamagedLogError(f"{path}: {why}", file=path, offset=offset))

    # --- inner workings ------------------------------------------------------------

    def _close_log(self, found: DamagedLogError) -> DamagedLogError:
        """Record the damage, so that nothing is read or appended any more, and notify `LogEvents`.

        Returns the first damage that was found, which may be an earlier one.
        """
        state = self._state
        if state.damage is None:
            state.damage = found
            state.env.events.log_damaged(state.partition, found)
        return state.damage

    def _locate(self, segment: Segment, error: CorruptBatchError) -> DamageLocation:
        """The exact position of the damage. Raises a `StorageError` if it cannot be read."""
        try:
            return locate_damage(segment, error, self._history(segment))
        except OSError as failure:
            self._state.health.read_failed(failure)

    def _check_chunk(
        self,
        segment: Segment,
        position: int,
        end: int,
        first: int,
        wanted_bytes: int = _CHUNK_BYTES,
        buffer: memoryview = _buffer,
    ) -> tuple[memoryview, Checked]:
        """Read and check the batches from `position`, up to `end` and about `wanted_bytes`.

        `position` and `end` are batch boundaries; the first batch contains the offset `first`. At
        least one batch is read. Returns the batches, as a view of `buffer`, or of new memory if a
        single batch is larger than the buffer. Raises `DamagedBatchError`.
        """
        wanted_bytes = min(wanted_bytes, len(buffer), end - position)
        while True:
            is_large = wanted_bytes > len(buffer)
            data = (memoryview(bytearray(wanted_bytes)) if is_large else buffer)[:wanted_bytes]
            found_bytes = segment.log.read_into(position, data)
            try:
                if found_bytes < wanted_bytes:
                    missing_bytes = end - position - found_bytes
                    what = f"the file ends {missing_bytes} bytes too early"
                    partial = check_batches(
                        data[:found_bytes], first, self._history(segment), more_follows=True
                    )
                    raise DamagedBatchError(what, partial.size_bytes, partial.next_offset)
                more_follows = position + wanted_bytes < end
                checked = check_batches(
                    data, first, self._history(segment), more_follows=more_follows
                )
            except DamagedBatchError as error:
                raise DamagedBatchError(
                    str(error), position + error.position, error.offset
                ) from error
            if checked.size_bytes:
                return data[: checked.size_bytes], checked
            # The first batch is larger than what was read: read as much as its header says.
            wanted_bytes = min(max(batch_end(data), wanted_bytes + 1), end - position)

    def _history(self, segment: Segment) -> History:
        """The facts that batches of this segment are compared with."""
        state = self._state
        return History(
            state.epochs.span_at, state.log_start_offset, state.gap_end_offset, segment.end_offset
        )
