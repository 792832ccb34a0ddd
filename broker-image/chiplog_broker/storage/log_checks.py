"""Verifies everything that is read from the disk, and closes a log that is damaged.

Records that were appended and are not durable yet were checked before the append and are still in
memory, so with `Fsync` they are not checked again. Everything else is checked at every read, and
regularly by the scrub. The first wrong batch closes the log: nothing more is read or appended, and
the directory is notified.
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
"""The buffer for chunks. Checking does not wait, so one buffer is enough; reusing memory avoids
page faults, which were a third of the time of a check."""


class LogChecks:
    """Checks what is read from one log, and closes the log if it is damaged."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def scrub(self, offset: int, max_bytes: int) -> tuple[int, int | None]:
        """Check durable batches from `offset` on, within one segment, at least one batch.

        Returns the bytes checked and the offset to continue at; None at the end of the log. It is
        an offset because positions change with a truncation. Raises `DamagedLogError`, and
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

        Reads this many bytes at a time, or a batch if it is larger. A view is valid until the next
        step. Raises `DamagedBatchError`, `OSError`.
        """
        buffer = memoryview(bytearray(chunk_bytes))
        position, end = segment.position_of(offset), segment.size_bytes
        while position < end:
            data, checked = self._check_chunk(segment, position, end, offset, chunk_bytes, buffer)
            for start, header in iter_batches(data):
                yield header, data[start : start + header.size_bytes]
            position, offset = position + checked.size_bytes, checked.next_offset

    def condemn(self, why: str) -> None:
        """Mark the log as damaged, because a comparison with other replicas proved it.

        The effect is that of damage found here: nothing is read or appended any more.
        """
        self._close_log(DamagedLogError(why))

    # --- for the rest of the log ---------------------------------------------------

    @contextmanager
    def checking(self, segment: Segment) -> Iterator[None]:
        """A context in which errors of this segment mark the log damaged, or the disk as failed."""
        try:
            yield
        except CorruptBatchError as error:
            raise self.found_damaged(segment, error) from error
        except OSError as error:
            self._state.health.read_failed(error)

    def check_slice(self, segment: Segment, position: int, size_bytes: int, offset: int) -> None:
        """Check whole batches, of which the first contains `offset`. Raises `DamagedBatchError`."""
        state = self._state
        if state.is_synced_before_ack and offset >= state.sync.durable_end_offset:
            return
        end = position + size_bytes
        while position < end:
            _, checked = self._check_chunk(segment, position, end, offset)
            position, offset = position + checked.size_bytes, checked.next_offset

    def read_batch(self, segment: Segment, position: int, size_bytes: int, offset: int) -> bytes:
        """One whole batch, checked. Raises `DamagedBatchError`."""
        data = segment.log.read(position, size_bytes)
        try:
            check_batches(memoryview(data), offset, self._history(segment))
        except DamagedBatchError as error:
            raise DamagedBatchError(str(error), position, error.offset) from error
        return data

    def found_damaged(self, segment: Segment, error: CorruptBatchError) -> DamagedLogError:
        """Record damage and return the error to raise. Only the first one is reported."""
        state = self._state
        if state.damage is None:
            flaw = self._locate(segment, error)
            where = "" if flaw.position is None else f" at byte {flaw.position}"
            which = "" if flaw.offset is None else f", offset {flaw.offset}"
            path = segment.log_path
            offset = segment.base_offset if flaw.offset is None else flaw.offset
            why = f"{path}{where}{which}: {flaw.why}"
            return self._close_log(
                DamagedLogError(why, file=path, offset=offset, is_cut=flaw.is_cut)
            )
        return state.damage

    def end_log(self, segment: Segment, offset: int, why: str) -> DamagedLogError:
        """Record that the append at `offset` left the log inconsistent, and return the error to
        raise."""
        path = segment.log_path
        return self._close_log(DamagedLogError(f"{path}: {why}", file=path, offset=offset))

    # --- inner workings ------------------------------------------------------------

    def _close_log(self, found: DamagedLogError) -> DamagedLogError:
        """Nothing is read or appended any more, and `LogEvents` is notified; the first error
        stays."""
        state = self._state
        if state.damage is None:
            state.damage = found
            state.env.events.log_damaged(state.partition, found)
        return state.damage

    def _locate(self, segment: Segment, error: CorruptBatchError) -> DamageLocation:
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
        """Read and check as many batches as fit into the buffer, from `position` up to `end`.

        Both are batch boundaries. Returns the batches, as a view of `buffer`, or of new memory if a
        single batch is larger than the buffer.
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
            # One batch that is larger than a chunk, according to its header.
            wanted_bytes = min(max(batch_end(data), wanted_bytes + 1), end - position)

    def _history(self, segment: Segment) -> History:
        state = self._state
        return History(
            state.epochs.span_at, state.log_start_offset, state.gap_end_offset, segment.end_offset
        )
