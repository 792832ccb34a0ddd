"""Appending to a log: batches of producers to a leader, and of a leader to a follower.

Appends are synchronous and go to the page cache. A batch is refused before its first byte is
written, so the log stays as it was. After each append `continuity` checks the log's end; if it is
inconsistent, the log is closed like a damaged one.
"""

from typing import NamedTuple

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.continuity import is_continuous, what_disagrees
from chiplog_broker.storage.errors import (
    DamagedLogError,
    FencedLeaderEpochError,
    UnexpectedEpochError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_broker.storage.log_rolling import SegmentRoller
from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.producers import FirstSequences, SentBatch
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import (
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    checked_headers,
    read_header,
    set_place,
    stamp_append_time,
)
from chiplog_wire.records.control import EndMarker, build_marker
from chiplog_wire.records.errors import BatchTooLargeError
from chiplog_wire.records.scan import check_keys_quickly
from chiplog_wire.records.validate import TimestampType, validate_produced
from chiplog_wire.records.writer import Producer, recompress

NO_APPEND_TIME = -1


class Origin(NamedTuple):
    """Where a batch for a leader comes from."""

    is_coordinator: bool
    """A group coordinator writes offsets of a producer's transaction, whose sequence numbers mean
    nothing."""
    may_begin: bool
    """The batch may begin a transaction of its producer."""


UNVERIFIED = Origin(is_coordinator=False, may_begin=False)
VERIFIED = Origin(is_coordinator=False, may_begin=True)


class AppendResult(NamedTuple):
    """The result of an append. A tuple, because one is made for every produce request."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 if the topic keeps the producers' timestamps."""
    log_start_offset: int
    duplicate: bool
    """Whether the batch was in the log already: then the offsets are those of the first append.

    For a batch that is older than the last five of its producer, the position is not remembered:
    `base_offset` is -1, and the batch is stored at `last_offset` or before.
    """


class LogAppender:
    """Writes at the end of one log."""

    __slots__ = ("_checks", "_free_space", "_limits", "_rewrites", "_roller", "_state")

    def __init__(self, state: LogState, roller: SegmentRoller, checks: LogChecks) -> None:
        self._state = state
        self._checks = checks
        self._free_space = state.env.free_space
        self._roller = roller
        self.configure(state.config)

    def configure(self, config: LogConfig) -> None:
        """Apply these settings."""
        self._limits = config.produce_limits()
        # Whether a produced batch may have to be changed, or its keys be checked.
        self._rewrites = (
            config.compression_type is not None
            or config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
            or config.compacts
        )

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch at the log end offset: later appends have this epoch.

        Raises `FencedLeaderEpochError` if the log has records of a newer epoch.
        """
        state = self._state
        state.check_writable()
        if leader_epoch < state.epochs.last_epoch:
            raise FencedLeaderEpochError(
                f"{state.partition} has records of leader epoch "
                f"{state.epochs.last_epoch}, so epoch {leader_epoch} has ended"
            )
        state.epochs.assign(leader_epoch, state.end_offset)

    def append_as_leader(
        self,
        batch: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        keys_are_checked: bool = False,
        first_sequences: FirstSequences | None = None,
        origin: Origin = VERIFIED,
    ) -> AppendResult:
        """Check a produced batch, assign its offsets, and write it.

        Offset and epoch are set in `batch` itself if it is writable, else in a copy.
        `first_sequences` has the sequence numbers that new producers must begin with after a
        refusal; with None they may begin with any. `keys_are_checked`: the caller has verified with
        `check_keys` that each record has a key. Raises `RecordsError` or `StorageError`, and then
        the log is unchanged, for example `UnverifiedTransactionError` if only the `origin` keeps
        the batch from beginning a transaction; `TakesLong` if the keys must be checked by the
        caller first.
        """
        state = self._state
        state.check_writable()
        header = validate_produced(batch, self._limits, now_ms)
        if header.producer_id >= 0:
            earlier = self._check_producer(header, first_sequences, origin)
            if earlier is not None:
                return self._duplicate(earlier)
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        if self._rewrites:
            batch, header = self._rewrite(batch, header, now_ms, keys_are_checked)
        size_bytes = len(batch)
        self._free_space.for_producer(size_bytes)
        if leader_epoch != state.epochs.last_epoch:
            self.begin_epoch(leader_epoch)
        base_offset = state.end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        set_place(batch, base_offset, header.length_bytes, leader_epoch)
        if self._roller.is_due(last_offset, max_timestamp_ms, size_bytes, now_ms):
            self._roller.roll(now_ms)
        segment = state.segments.active
        self._write(segment, batch, now_ms)
        segment.count(last_offset, max_timestamp_ms, size_bytes)
        state.end_offset = last_offset + 1
        if header.producer_id >= 0:
            state.pass_time()
        state.producers.record(header, base_offset)
        if not is_continuous(state, segment, leader_epoch):
            raise self._discontinuous(segment, base_offset, leader_epoch)
        append_time_ms = max_timestamp_ms if header.is_log_append_time else NO_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, state.log_start_offset, False)

    def append_as_follower(
        self, batches: memoryview, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Write complete batches that were fetched from the leader of this epoch.

        They must continue this log. All are checked before the first one is written. If the disk
        becomes full in between, the batches that were written stay. Raises `UnexpectedOffsetError`
        if they do not continue the log, `UnexpectedEpochError` if their epochs decrease or exceed
        the leader's own: no leader has records of a later epoch.
        """
        state = self._state
        state.check_writable()
        self._free_space.for_accepted(len(batches))
        base_offset = state.end_offset
        headers = self._check_replicated(batches, leader_epoch)
        if headers and self._fit(headers, len(batches), now_ms):
            self._write_run(batches, headers, now_ms)
        else:
            self._write_runs(batches, headers, now_ms)
        return AppendResult(
            base_offset, state.end_offset - 1, NO_APPEND_TIME, state.log_start_offset, False
        )

    def append_marker(
        self,
        marker: EndMarker,
        producer: Producer,
        leader_epoch: int,
        now_ms: int,
        *,
        epoch_is_raised: bool = False,
    ) -> AppendResult:
        """Write an end marker of a transaction coordinator.

        `epoch_is_raised` is that of `ProducerStates.check_marker`. Raises `StorageError`, and then
        the log is unchanged.
        """
        state = self._state
        state.check_writable()
        state.producers.check_marker(producer, marker, epoch_is_raised=epoch_is_raised)
        batch = memoryview(build_marker(marker, producer, now_ms))
        if state.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            stamp_append_time(batch, now_ms)
        # The records of its transaction were accepted, and are hidden until it ends.
        self._free_space.for_accepted(len(batch))
        if leader_epoch != state.epochs.last_epoch:
            self.begin_epoch(leader_epoch)
        offset = state.end_offset
        set_place(batch, offset, len(batch) - LENGTH_OVERHEAD_BYTES, leader_epoch)
        self._write_runs(batch, [read_header(batch)], now_ms)
        return AppendResult(offset, offset, NO_APPEND_TIME, state.log_start_offset, False)

    # --- inner workings ----------------------------------------------------------

    def _check_producer(
        self, header: BatchHeader, first_sequences: FirstSequences | None, origin: Origin
    ) -> SentBatch | None:
        """Check a batch against the last ones of its producer. Returns the stored batch if it is a
        duplicate. Raises `StorageError`."""
        producers = self._state.producers
        if origin.is_coordinator:
            producers.check_of_coordinator(header)
        elif (earlier := producers.check(header, first_sequences)) is not None:
            return earlier
        if not origin.may_begin:
            producers.check_begins_none(header)
        return None

    def _fit(self, headers: list[BatchHeader], size_bytes: int, now_ms: int) -> bool:
        """Whether all these batches belong into the active segment.

        A new segment is due for none of them if it is not due for all of them together.
        """
        newest_ms = max(header.max_timestamp_ms for header in headers)
        return not self._roller.is_due(headers[-1].last_offset, newest_ms, size_bytes, now_ms)

    def _write_runs(self, batches: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Write batches to as many segments as they need."""
        # The batches for the same segment, a run, are written together. `run_start` is the position
        # of the first one in `batches`.
        run: list[BatchHeader] = []
        run_start = position = 0
        for header in headers:
            added_bytes = position - run_start + header.size_bytes
            last_offset, newest_ms = header.last_offset, header.max_timestamp_ms
            if self._roller.is_due(last_offset, newest_ms, added_bytes, now_ms):
                self._write_run(batches[run_start:position], run, now_ms)
                run, run_start = [], position
                self._roller.roll(now_ms)
            run.append(header)
            position += header.size_bytes
        self._write_run(batches[run_start:position], run, now_ms)

    def _write(self, segment: Segment, data: memoryview, now_ms: int) -> None:
        """Write to the end of a segment, to the page cache."""
        try:
            segment.write(data)
        except OSError as error:
            self._state.health.write_failed(error)
        self._free_space.taken(len(data))
        if not segment.unsynced:
            self._state.sync.wrote_to(segment, now_ms)

    def _write_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        """Write several batches to the active segment with one write, and count them there.

        `run` has their headers; nothing is written if it is empty.
        """
        if not run:
            return
        state = self._state
        segment = state.segments.active
        self._write(segment, data, now_ms)
        state.pass_time()
        epoch = state.epochs.last_epoch
        for header in run:
            if header.leader_epoch != epoch:
                epoch = header.leader_epoch
                state.epochs.assign(epoch, header.base_offset)
        segment.count_all(run)
        state.end_offset = run[-1].last_offset + 1
        ended = state.producers.record_all(run, data)
        if ended:
            segment.transaction_index.add_ended(ended)
        if not is_continuous(state, segment, epoch):
            raise self._discontinuous(segment, run[0].base_offset, epoch)

    def _discontinuous(self, segment: Segment, offset: int, leader_epoch: int) -> DamagedLogError:
        """Close the log as damaged after an append at `offset` whose counters disagree.

        Returns the error to raise, so that the append is not acknowledged.
        """
        why = what_disagrees(self._state, segment, leader_epoch)
        return self._checks.end_log(segment, offset, why)

    def _check_replicated(self, batches: memoryview, leader_epoch: int) -> list[BatchHeader]:
        """The headers of batches from the leader, after their checksums, offsets and epochs were
        checked."""
        state = self._state
        headers = checked_headers(batches)
        expected, epoch = state.end_offset, state.epochs.last_epoch
        for header in headers:
            base_offset, delta = header.base_offset, header.last_offset_delta
            if not epoch <= header.leader_epoch <= leader_epoch:
                raise UnexpectedEpochError(
                    f"{state.partition} has epoch {header.leader_epoch} at {base_offset} "
                    f"after epoch {epoch}, from the leader of epoch {leader_epoch}"
                )
            is_expected = base_offset == expected or expected < base_offset <= state.gap_end_offset
            if not is_expected or delta < 0:
                raise UnexpectedOffsetError(
                    f"{state.partition}: expected offset {expected}, got {base_offset}",
                    base_offset,
                )
            expected, epoch = base_offset + delta + 1, header.leader_epoch
        return headers

    def _duplicate(self, earlier: SentBatch) -> AppendResult:
        """The result for a batch that is in the log already, as `earlier`."""
        state = self._state
        stamped = state.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return AppendResult(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp_ms if stamped else NO_APPEND_TIME,
            state.log_start_offset,
            True,  # a duplicate
        )

    def _rewrite(
        self, batch: memoryview, header: BatchHeader, now_ms: int, keys_are_checked: bool
    ) -> tuple[memoryview, BatchHeader]:
        """Apply the topic's settings to a batch: check keys, recompress, set timestamps."""
        config = self._state.config
        if config.compacts and not keys_are_checked:
            check_keys_quickly(batch, header)
        codec = config.compression_type
        if codec is not None and codec is not header.codec:
            batch = memoryview(recompress(batch, header, codec))
            if len(batch) > config.max_message_bytes:
                raise BatchTooLargeError(
                    f"compressed with {codec.name}, the batch has {len(batch)} bytes, and "
                    f"max.message.bytes is {config.max_message_bytes}"
                )
        if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            stamp_append_time(batch, now_ms)
        return batch, read_header(batch)
