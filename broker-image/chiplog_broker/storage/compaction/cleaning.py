"""One compaction pass over one log.

It first finds the last offset of each key in the dirty part, which was not compacted yet. Then it
writes new segments with the records that stay, and replaces the old segments by them. Everything
runs on the event loop's thread in steps of about half a millisecond. Between steps other tasks
append, read, delete and truncate; after each step the pass checks whether it may continue. It reads
finished segments only, and writes files that are not part of the log yet.
"""

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from chiplog_broker.storage.compaction.key_map import KeyMap
from chiplog_broker.storage.compaction.pace import Pace
from chiplog_broker.storage.compaction.rewrite import (
    RetentionRules,
    has_no_keys,
    index_batch,
    rewrite_batch,
)
from chiplog_broker.storage.compaction.transactions import PassedTransactions
from chiplog_broker.storage.compaction_plan import Dirt
from chiplog_broker.storage.errors import CompactionAbortedError
from chiplog_broker.storage.log_compaction import LogCompaction
from chiplog_broker.storage.segment import Segment
from chiplog_wire.buffer import Buffer
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.errors import CorruptBatchError

_READ_BYTES: Final = 256 * 1024
_WRITE_BYTES: Final = 256 * 1024
_SYNC_BYTES: Final = 8 * 2**20
"""Written bytes are synced in portions: one sync of a GiB would delay the syncs of other logs."""

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, None]
"""A generator that yields whenever a pause is due."""


@dataclass(slots=True)
class PassResult:
    """The result of a pass."""

    end_offset: int = 0
    """The first offset that is dirty now."""
    map_filled: float = 0.0
    """The share of the key map that was used."""
    indexed_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    read_records: int = 0
    kept_records: int = 0


class CleaningPass:
    """A pass over a log. Run `run()` once."""

    def __init__(self, log: LogCompaction, dirt: Dirt, max_key_bytes: int, pace: Pace) -> None:
        """`dirt` is the part to compact; `max_key_bytes` limits the memory of the key map."""
        self._log = log
        self._dirt = dirt
        self._keys = KeyMap(max_key_bytes)
        self._pace = pace
        self._cut_count = log.cut_count
        """The number of truncations of the log before this pass; a later one aborts the pass."""
        self._indexed_transactions = PassedTransactions()
        """The transactions of the batches whose keys are added."""
        self._rewritten_transactions = PassedTransactions()
        """The transactions of the batches that are rewritten."""
        self._reading = log.newest_segment
        """The segment that is being read, for the error message if it is damaged."""
        self.result = PassResult()

    async def run(self, now_ms: int) -> PassResult:
        """Compact the dirty part, as far as the key map can hold its keys.

        Raises `CompactionAbortedError` if it cannot continue, `DamagedLogError` for a damaged
        batch, `DiskFullError`, or `DirectoryOfflineError`.
        """
        log, result = self._log, self.result
        # Before any record is removed: otherwise a gap would be taken for damage.
        await log.allow_gaps(self._dirt.end_offset)
        try:
            await self._index_dirty_part()
            result.end_offset = self._keys.latest_offset + 1
            result.map_filled = len(self._keys) / self._keys.max_keys
            for group in log.groups_below(result.end_offset):
                await self._clean(group, now_ms)
        except CorruptBatchError as error:
            raise log.found_damaged(self._reading, error) from error
        except OSError as error:
            log.disk_failed(error)
        await log.compacted_up_to(result.end_offset, self._cut_count)
        return result

    # --- the keys ------------------------------------------------------------------

    async def _index_dirty_part(self) -> None:
        """Add the keys of the dirty part to the key map, until its end or until the map is full."""
        first_dirty = self._dirt.first_dirty_offset
        self._keys.passed(first_dirty - 1)
        for segment in self._log.segments_below(self._dirt.end_offset):
            if segment.end_offset > first_dirty and not self._keys.is_full:
                self._log.check_untouched([segment], self._cut_count)
                for _ in self._index_segment(segment, first_dirty):
                    await self._pause_and_check([segment])
                await self._pause_and_check([segment])

    def _index_segment(self, segment: Segment, first_dirty: int) -> Steps:
        """Add the keys of one segment, from the offset `first_dirty` on."""
        self._reading = segment
        offset = max(first_dirty, segment.base_offset)
        transactions = self._indexed_transactions
        transactions.expect(self._log.aborted_transactions(offset, segment.end_offset))
        for header, batch in self._log.finished_batches(segment, offset, _READ_BYTES):
            self.result.indexed_bytes += header.size_bytes
            self._pace.moved(header.size_bytes)
            if has_no_keys(transactions, batch, header):
                self._keys.passed(header.last_offset)
                if self._pace.is_due():
                    yield
                continue
            yield from self._paced(index_batch(self._keys, batch, header, first_dirty))
            if self._keys.is_full:
                return

    # --- the segments ----------------------------------------------------------------

    async def _clean(self, group: Sequence[Segment], now_ms: int) -> None:
        """Compact adjacent segments into one new segment, and replace them by it.

        If all records of a single segment stay, it is not replaced.
        """
        log = self._log
        log.check_untouched(group, self._cut_count)
        rules = RetentionRules(
            keys=self._keys,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            remembered_batches=log.remembered_batches(),
            marker_epochs=log.epochs_without_batches(),
            transactions=self._rewritten_transactions,
        )
        output = _Output(log.begin_cleaned(group[0].base_offset), self._pace)
        try:
            for segment in group:
                for _ in self._rewrite(segment, output, rules, group[-1].end_offset):
                    await output.sync_some()
                    await self._pause_and_check(group)
                await self._pause_and_check(group)
            if output.is_changed or len(group) > 1:
                await output.complete(group[-1])
                await log.replace_segments(group, output.segment, self._cut_count)
            else:
                output.segment.discard()
        except (CompactionAbortedError, CorruptBatchError, OSError):
            with suppress(OSError):
                output.segment.discard()
            raise
        self._count(output)

    def _rewrite(
        self, segment: Segment, output: "_Output", rules: RetentionRules, end_offset: int
    ) -> Steps:
        """Write the records of one segment that stay to `output`; yields when a pause is due.

        `end_offset` is that of the new segment.
        """
        self._reading = segment
        transactions = rules.transactions
        transactions.expect(self._log.aborted_transactions(segment.base_offset, segment.end_offset))
        batches = self._log.finished_batches(segment, segment.base_offset, _READ_BYTES)
        for header, batch in batches:
            self._pace.moved(header.size_bytes)
            self.result.read_bytes += header.size_bytes
            self.result.read_records += header.record_count
            left = yield from self._paced(rewrite_batch(rules, batch, header, end_offset))
            output.take(batch, header, left)
            if transactions.kept:
                output.segment.transaction_index.add_aborted(transactions.kept)
                transactions.kept.clear()
            if self._pace.is_due():
                yield
        output.flush()

    def _count(self, output: "_Output") -> None:
        """Add the size of a compacted segment to the result of the pass."""
        self.result.written_bytes += output.segment.size_bytes
        self.result.kept_records += output.records

    # --- both ------------------------------------------------------------------------

    def _paced(self, work: Generator[int, None, T]) -> Generator[None, None, T]:
        """Run a generator that yields numbers of records, with a pause whenever one is due."""
        while True:
            try:
                records = next(work)
            except StopIteration as finished:
                result: T = finished.value
                return result
            if self._pace.is_due(records):
                yield

    async def _pause_and_check(self, segments: Sequence[Segment]) -> None:
        """Let other tasks run. Raises `CompactionAbortedError` if they have changed the segments,
        truncated the log or stopped the pass."""
        await self._pace.pause()
        self._log.check_untouched(segments, self._cut_count)


class _Output:
    """The segment that a pass writes."""

    def __init__(self, segment: Segment, pace: Pace) -> None:
        self.segment = segment
        self.is_changed = False
        """Whether any batch was changed or left out, compared with the source segments."""
        self.records = 0
        self._pace = pace
        self._waiting = bytearray()
        """Batches that are not written to the file yet; `_headers` has their headers."""
        self._headers: list[BatchHeader] = []
        self._synced_bytes = 0

    def take(self, batch: Buffer, header: BatchHeader, left: Buffer | None) -> None:
        """Add what compaction has left of a source batch. It is written by `flush` at the latest.

        `left` is the compacted batch: the same object as `batch` if all records stay, and None if
        nothing stays.
        """
        if left is not batch:
            self.is_changed = True
        if left is None:
            return
        kept = header if left is batch else read_header(left)
        self._headers.append(kept)
        self.records += kept.record_count
        self._waiting += left
        self._pace.moved(len(left))
        if len(self._waiting) >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the batches that are buffered."""
        segment = self.segment
        if self._headers:
            segment.write(self._waiting)
        for header in self._headers:
            segment.count(header.last_offset, header.newest_record_ms, header.size_bytes)
        self._headers = []
        self._waiting = bytearray()

    async def sync_some(self) -> None:
        """Sync the file if at least `_SYNC_BYTES` were written since its last sync."""
        if self.segment.size_bytes - self._synced_bytes >= _SYNC_BYTES:
            self._synced_bytes = self.segment.size_bytes
            await self.segment.log.sync()

    async def complete(self, last_source: Segment) -> None:
        """Complete the segment: write its indexes and make everything durable."""
        self.segment.seal()
        self.segment.take_over(last_source)
        await self.segment.sync()
