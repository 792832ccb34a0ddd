"""The log of one partition on one broker.

Appends and reads are synchronous and only touch the page cache; `make_durable` waits for
the device. `log_state` holds what a log consists of, `log_surgery` takes something away,
`log_compaction` what is outdated.

Invariants:

* offsets are contiguous from `log_start_offset` to `end_offset` and never used twice; where
  compaction has been, some are missing, but never the end of a segment;
* `durable_end_offset` <= `end_offset`, and everything below it survives a power cut;
* every batch's epoch is what `epochs` says for its offset;
* the producer states are the fold of all batches below `end_offset`.
"""

from enum import IntEnum
from typing import NamedTuple

from chiplog_broker.ports.disk import File
from chiplog_broker.records.batch import (
    BatchHeader,
    check_crc,
    iter_batches,
    read_header,
    set_place,
    stamp_append_time,
)
from chiplog_broker.records.errors import BatchTooLargeError
from chiplog_broker.records.scan import check_keys_quickly
from chiplog_broker.records.validate import TimestampType, validate_produced
from chiplog_broker.records.writer import recompress
from chiplog_broker.steps import Steps, at_once
from chiplog_broker.storage.epochs import EpochEnd
from chiplog_broker.storage.errors import (
    OffsetOutOfRangeError,
    RecordsTruncatedError,
    UnexpectedEpochError,
    UnexpectedOffsetError,
)
from chiplog_broker.storage.log_compaction import LogCompaction
from chiplog_broker.storage.producers import SentBatch
from chiplog_broker.storage.segment import MAX_RELATIVE_OFFSET, Segment
from chiplog_broker.storage.timestamps import (
    Access,
    MovedError,
    TimestampOffset,
    first_at_or_after,
    may_hold_newest,
    newest_in,
)

__all__ = [
    "AppendResult",
    "EpochEnd",
    "ListOffset",
    "LogSlice",
    "PartitionLog",
    "TimestampOffset",
]

NO_APPEND_TIME = -1
_SEARCHES = 5
"""How often a search begins again because segments were cut, compacted or deleted meanwhile."""


class AppendResult(NamedTuple):
    """Where an append went. A tuple: one is made per produce request."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 where the topic keeps the producers' own timestamps."""
    log_start_offset: int
    duplicate: bool
    """The batch was in the log already; the offsets are those it got then."""


class LogSlice(NamedTuple):
    """Whole batches that lie side by side in one file. Use it before the next await."""

    file: File
    position: int
    size_bytes: int
    """0: there is nothing at this offset yet."""
    next_offset: int
    """Where reading goes on."""

    def read(self) -> bytes:
        """The batches as bytes of their own."""
        return self.file.read(self.position, self.size_bytes)

    def after(self, size_bytes: int) -> "LogSlice":
        """What is left where so many bytes were sent."""
        return self._replace(
            position=self.position + size_bytes, size_bytes=self.size_bytes - size_bytes
        )

    def read_into(self, buffer: memoryview) -> int:
        """The batches into the beginning of a buffer that is large enough."""
        return self.file.read_into(self.position, buffer[: self.size_bytes])


class ListOffset(IntEnum):
    """The timestamps that mean a place, not a time, in ListOffsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


class PartitionLog(LogCompaction):
    """One replica. Made by `LogDirectory`."""

    __slots__ = ()

    # --- writing ---------------------------------------------------------------

    def append_as_leader(
        self, batch: memoryview, leader_epoch: int, now_ms: int, *, keys_are_checked: bool = False
    ) -> AppendResult:
        """Check one produced batch, give it its place, write it.

        Offset and epoch are set in `batch` itself if it can be written to. Raises
        `RecordsError` or `StorageError`, and then the log is as it was; also `TakesLong`, unless
        `check_keys` was found to be content with it before.
        """
        self._check_writable()
        header = validate_produced(batch, self._limits, now_ms)
        if header.producer_id >= 0:
            earlier = self._producers.check(header)
            if earlier is not None:
                return self._duplicate(earlier)
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        if self._rewrites:
            batch, header = self._rewrite(batch, header, now_ms, keys_are_checked)
        size_bytes = len(batch)
        self._room.for_producer(size_bytes)
        if leader_epoch != self._epochs.last_epoch:
            self.begin_epoch(leader_epoch)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        set_place(batch, base_offset, header.length_bytes, leader_epoch)
        if self._roll_is_due(last_offset, max_timestamp_ms, size_bytes, now_ms):
            self.roll(now_ms)
        self._write(batch, now_ms)
        self._segments.active.count(last_offset, max_timestamp_ms, size_bytes)
        self.end_offset = last_offset + 1
        if header.producer_id >= 0:
            self._pass_time()
        self._producers.record(header, base_offset)
        append_time_ms = max_timestamp_ms if header.is_log_append_time else NO_APPEND_TIME
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset, False)

    def append_as_follower(
        self, batches: memoryview, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Write whole batches as the leader of this epoch has them; they must continue this log.

        All are checked before the first is written. If the disk fills up on the way, those
        that fitted stay. Raises `UnexpectedEpochError` where the epochs go back, or beyond
        the leader's own: no leader has records of a reign that comes after its.
        """
        self._check_writable()
        self._room.for_follower(len(batches))
        base_offset = self.end_offset
        run: list[BatchHeader] = []
        run_start = position = 0
        for header in self._check_replicated(batches, leader_epoch):
            added_bytes = position - run_start + header.size_bytes
            if self._roll_is_due(header.last_offset, header.max_timestamp_ms, added_bytes, now_ms):
                self._write_run(batches[run_start:position], run, now_ms)
                run, run_start = [], position
                self.roll(now_ms)
            run.append(header)
            position += header.size_bytes
        self._write_run(batches[run_start:position], run, now_ms)
        return AppendResult(
            base_offset, self.end_offset - 1, NO_APPEND_TIME, self.log_start_offset, False
        )

    # --- reading -----------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, out of one segment.

        They end at or before `up_to_offset` and within `max_bytes`, except that with
        `min_one` the first batch is given whole.
        """
        self._check_open()
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.partition} is not within "
                f"{self.log_start_offset} to {self.end_offset}"
            )
        segment = self._segments.holding(offset)
        if offset >= up_to_offset or offset == self.end_offset:
            return LogSlice(segment.log, 0, 0, offset)
        with self._looking_into(segment):
            found = segment.slice_from(offset, max_bytes, up_to_offset, min_one=min_one)
            if found.size_bytes:
                self._check_slice(segment, found.position, found.size_bytes, offset)
        return LogSlice(segment.log, *found)

    def offset_for_timestamp(self, timestamp_ms: int, up_to_offset: int) -> TimestampOffset | None:
        """What ListOffsets answers for a time or a `ListOffset`, seen up to an offset."""
        return at_once(self.find_timestamp(timestamp_ms, up_to_offset))

    def find_timestamp(self, timestamp_ms: int, up_to_offset: int) -> Steps[TimestampOffset | None]:
        """The same in steps: a search may have to look at many batches.

        Raises `RecordsTruncatedError` where the log changes again and again.
        """
        self._check_open()
        match timestamp_ms:
            case ListOffset.LATEST:
                offset = min(up_to_offset, self.end_offset)
                return TimestampOffset(-1, offset, self._epochs.epoch_at(offset))
            case ListOffset.EARLIEST:
                offset = self.log_start_offset
                return TimestampOffset(-1, offset, self._epochs.epoch_at(offset))
        for _ in range(_SEARCHES):
            try:
                found = yield from self._search(timestamp_ms)
            except MovedError:
                yield None
            else:
                return found if found is not None and found.offset < up_to_offset else None
        raise RecordsTruncatedError(f"{self.partition} changed while a time was looked for")

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which `offset` was written; -1 if not known."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """Where `leader_epoch` ends in this log; (-1, -1) where it cannot say."""
        return self._epochs.end_offset_for(leader_epoch, self.end_offset)

    # --- inner workings ----------------------------------------------------------

    def _search(self, timestamp_ms: int) -> Steps[TimestampOffset | None]:
        """Raises `MovedError` where the log changed meanwhile, `LogClosedError`."""
        cuts = self._cuts

        def check(segment: Segment) -> None:
            self._check_open()
            if self._cuts != cuts or self._busy or segment.retired:
                raise MovedError

        access = Access(self._read_batch, check)
        if timestamp_ms == ListOffset.MAX_TIMESTAMP:
            return (yield from self._newest(access))
        return (yield from self._first_at_or_after(timestamp_ms, access))

    def _newest(self, access: Access) -> Steps[TimestampOffset | None]:
        best: TimestampOffset | None = None
        for segment in may_hold_newest(self._segments.as_list(), self.log_start_offset):
            with self._looking_into(segment):
                found = yield from newest_in(segment, self.log_start_offset, access)
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
        return best

    def _first_at_or_after(
        self, timestamp_ms: int, access: Access
    ) -> Steps[TimestampOffset | None]:
        start_offset = self.log_start_offset
        for segment in self._segments.as_list():
            if segment.end_offset > start_offset:
                with self._looking_into(segment):
                    found = yield from first_at_or_after(
                        segment, timestamp_ms, start_offset, access
                    )
                if found is not None:
                    return found
        return None

    def _roll_is_due(
        self, last_offset: int, max_timestamp_ms: int, added_bytes: int, now_ms: int
    ) -> bool:
        """Kafka's conditions; time is record time, or ours where records carry none."""
        segment = self._segments.active
        first_ms = segment.first_timestamp_ms
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - segment.created_ms
        return (
            segment.size_bytes + added_bytes > self._roll_bytes
            or (waited_ms > self._roll_ms and segment.size_bytes > 0)
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.index_full
        )

    def _write(self, data: memoryview, now_ms: int) -> None:
        segment = self._segments.active
        try:
            segment.write(data)
        except OSError as error:
            self._health.write_failed(error)
        self._room.taken(len(data))
        if not segment.unsynced:
            self._sync.wrote_to(segment, now_ms)

    def _write_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        """One write for many batches; nothing if there are none."""
        if not run:
            return
        self._write(data, now_ms)
        segment = self._segments.active
        self._pass_time()
        for header in run:
            self._epochs.assign(header.leader_epoch, header.base_offset)
            segment.count(header.last_offset, header.newest_record_ms, header.size_bytes)
            self.end_offset = header.last_offset + 1
            self._producers.record(header, header.base_offset)

    def _check_replicated(self, batches: memoryview, leader_epoch: int) -> list[BatchHeader]:
        headers = []
        expected, epoch = self.end_offset, self._epochs.last_epoch
        for position, header in iter_batches(batches):
            check_crc(batches[position:], header)
            if not epoch <= header.leader_epoch <= leader_epoch:
                raise UnexpectedEpochError(
                    f"{self.partition} has epoch {header.leader_epoch} at {header.base_offset} "
                    f"after epoch {epoch}, from the leader of epoch {leader_epoch}"
                )
            is_gap = header.base_offset > expected and self.may_have_gaps
            if (header.base_offset != expected and not is_gap) or header.last_offset_delta < 0:
                raise UnexpectedOffsetError(
                    f"{self.partition} goes on at {expected}, not {header.base_offset}",
                    header.base_offset,
                )
            expected, epoch = header.last_offset + 1, header.leader_epoch
            headers.append(header)
        return headers

    def _duplicate(self, earlier: SentBatch) -> AppendResult:
        stamped = self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return AppendResult(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp_ms if stamped else NO_APPEND_TIME,
            self.log_start_offset,
            True,
        )

    def _rewrite(
        self, batch: memoryview, header: BatchHeader, now_ms: int, keys_are_checked: bool
    ) -> tuple[memoryview, BatchHeader]:
        """What the topic asks of a batch beyond storing it: keys, another codec, our clock."""
        if self._config.compacts and not keys_are_checked:
            check_keys_quickly(batch, header)
        codec = self._config.compression_type
        if codec is not None and codec is not header.codec:
            batch = memoryview(recompress(batch, header, codec))
            if len(batch) > self._config.max_message_bytes:
                raise BatchTooLargeError(
                    f"as {codec.name} the batch has {len(batch)} bytes, "
                    f"max.message.bytes is {self._config.max_message_bytes}"
                )
        if self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            stamp_append_time(batch, now_ms)
        return batch, read_header(batch)
