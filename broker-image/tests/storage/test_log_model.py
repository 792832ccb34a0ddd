"""A log against a plain list.

Hypothesis picks any order of appends, rolls, truncations, deletions, retention, clean
restarts, kills and power cuts, and compares every offset and every timestamp lookup with
what a list of records says.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import OffsetOutOfRangeError
from chiplog_broker.storage.log import ListOffset
from chiplog_wire.records.batch import BatchHeader, Codec, iter_batches
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

EXAMPLES = 100

TINY = LogConfig(
    segment_bytes=600,
    segment_ms=5_000,
    index_interval_bytes=100,
    file_delete_delay_ms=50,
    message_timestamp_after_max_ms=10**12,
)


@dataclass(frozen=True)
class Entry:
    """What the list knows of one record."""

    offset: int
    value: bytes
    timestamp_ms: int
    epoch: int
    batch_start: int


class LogMachine(RuleBasedStateMachine):
    """One log, one list."""

    def __init__(self, kit: "StorageKit", make_batch: "MakeBatch") -> None:
        super().__init__()
        self.kit = kit
        self.make_batch = make_batch
        self.kit.config = TINY
        self.loop = asyncio.new_event_loop()
        self.directory, self.log = self.run(kit.new_log())
        self.entries: list[Entry] = []
        self.log_start = 0
        self.end = 0
        self.durable = self.durable_before = 0
        self.epoch = 0
        self.written = 0
        self.producer_id = 1
        self.sequence = 0
        self.sent: list[tuple[bytes, int, int]] = []
        self.cut_is_fresh = False

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    # --- rules ---------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 5),
        step_ms=st.integers(-300, 800),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    )
    def append(self, count: int, step_ms: int, codec: Codec) -> None:
        self.kit.clock.time_ms += 100
        timestamp_ms = max(0, self.kit.clock.time_ms + step_ms)
        values = [b"record %d" % (self.written + index) for index in range(count)]
        self.written += count
        batch = self.make_batch(values, timestamp_ms=timestamp_ms, codec=codec)
        result = self.log.append_as_leader(batch, self.epoch, self.now)
        assert (result.base_offset, result.last_offset) == (self.end, self.end + count - 1)
        self._note(values, timestamp_ms)

    @rule(count=st.integers(1, 3))
    def append_once(self, count: int) -> None:
        values = [b"once %d" % (self.written + index) for index in range(count)]
        self.written += count
        producer = Producer(producer_id=self.producer_id, epoch=0, base_sequence=self.sequence)
        batch = bytes(self.make_batch(values, timestamp_ms=self.now, producer=producer))
        result = self.log.append_as_leader(memoryview(batch), self.epoch, self.now)
        assert not result.duplicate
        self.sequence += count
        self.sent.append((batch, result.base_offset, result.last_offset))
        self._note(values, self.now)

    @rule()
    def send_last_again(self) -> None:
        if self.sent:
            batch, base_offset, last_offset = self.sent[-1]
            result = self.log.append_as_leader(memoryview(batch), self.epoch, self.now)
            assert result.duplicate
            assert (result.base_offset, result.last_offset) == (base_offset, last_offset)

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1
        self.log.begin_epoch(self.epoch)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        assert self.log.durable_end_offset == self.end
        self.durable = self.end
        self.cut_is_fresh = False

    @rule()
    def checkpoint(self) -> None:
        self.run(self.directory.checkpoint({self.kit.orders: self.durable}))

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        offset = round(self.log_start + where * (self.end - self.log_start))
        self.run(self.log.truncate_to(offset, self.now))
        start = next((e.batch_start for e in self.entries if e.offset == offset), offset)
        if offset == self.log_start or start < self.log_start:
            self._empty_at(self.log_start)
        elif offset < self.end:
            self._cut_at(start)
        self._read_all()
        self.epoch += 1

        self.cut_is_fresh = True

    @rule(offset=st.integers(0, 200))
    def start_over(self, offset: int) -> None:
        self.run(self.log.truncate_fully_and_start_at(offset, self.now))
        self._empty_at(offset)
        self.epoch += 1

    @rule(where=st.floats(0, 1))
    def delete_records(self, where: float) -> None:
        offset = round(self.log_start + where * (self.end - self.log_start))
        assert self.run(self.log.delete_records_before(offset, self.now)) == offset
        self._raise_start(offset)

    @rule(bytes_kept=st.integers(0, 3_000), everything=st.booleans())
    def retention(self, bytes_kept: int, everything: bool) -> None:
        high_watermark = self.end if everything else (self.log_start + self.end) // 2
        self.log.configure(replace(TINY, retention_bytes=bytes_kept, retention_ms=-1))
        self.run(self.log.enforce_retention(high_watermark, self.now))
        self.log.configure(TINY)
        start = self.log.log_start_offset
        assert self.log_start <= start <= high_watermark or start == self.log_start
        self._raise_start(start)

    @rule()
    def time_passes(self) -> None:
        self.kit.clock.time_ms += 60
        self.log.remove_expired_files(self.now)

    @rule()
    def restart_cleanly(self) -> None:
        self.run(self.directory.close({}, 1))
        self.kit.disk.release_locks()
        self._open()
        assert self.directory.report.clean
        assert self.log.end_offset == self.end

    @rule()
    def kill(self) -> None:
        nothing_lost = self.log._state.sync.epochs_saved
        self.kit.kill()
        self._open()
        if nothing_lost:
            assert self.log.end_offset == self.end
        else:
            # Records of an epoch that is not saved yet were promised to nobody.
            assert self.durable_before <= self.log.end_offset <= self.end
            self._cut_at(self.log.end_offset)

    @rule(seed=st.integers(0, 2**16))
    def cut_power(self, seed: int) -> None:
        if self.cut_is_fresh:
            # Without a sync a truncation may be undone, which a list cannot say.
            self.run(self.log.flush())
        self.kit.cut_power(seed)
        self._open()
        assert self.durable_before <= self.log.end_offset <= self.end
        self._cut_at(self.log.end_offset)

    @rule(
        where=st.floats(0, 1),
        up_to=st.floats(0, 1),
        max_bytes=st.integers(0, 2_000),
        min_one=st.booleans(),
    )
    def read(self, where: float, up_to: float, max_bytes: int, min_one: bool) -> None:
        span = self.end - self.log_start
        offset = round(self.log_start + where * span)
        bound = round(self.log_start + up_to * span)
        found = self.log.read(offset, max_bytes, bound, min_one=min_one)
        data = found.read()
        assert len(data) == found.size_bytes
        headers = [header for _, header in iter_batches(data)]
        if not headers:
            first = next((e for e in self.entries if e.offset == offset), None)
            assert first is None or not min_one or self._batch_end(first.batch_start) > bound
            return
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert headers[-1].last_offset < bound
        assert found.next_offset == headers[-1].last_offset + 1
        assert found.size_bytes <= max_bytes or (min_one and len(headers) == 1)
        read = [r for header, at in _placed(data) for r in read_records(data[at:], header)]
        by_offset = {entry.offset: entry.value for entry in self.entries}
        assert [r.value for r in read if r.offset >= self.log_start] == [
            by_offset[r.offset] for r in read if r.offset >= self.log_start
        ]

    @rule(back_ms=st.integers(-1_000, 20_000))
    def look_up_time(self, back_ms: int) -> None:
        timestamp_ms = max(0, self.now - back_ms)
        expected = next((e for e in self.entries if e.timestamp_ms >= timestamp_ms), None)
        found = self.log.offset_for_timestamp(timestamp_ms, self.end)
        assert (found and (found.offset, found.timestamp_ms)) == (
            expected and (expected.offset, expected.timestamp_ms)
        )

    @rule()
    def look_up_newest(self) -> None:
        found = self.log.offset_for_timestamp(ListOffset.MAX_TIMESTAMP, self.end)
        expected = max(self.entries, key=lambda entry: entry.timestamp_ms, default=None)
        assert (found and (found.offset, found.timestamp_ms)) == (
            expected and (expected.offset, expected.timestamp_ms)
        )

    # --- what always holds -----------------------------------------------------------------

    @invariant()
    def same_bounds(self) -> None:
        assert self.log.log_start_offset == self.log_start
        assert self.log.end_offset == self.end
        assert self.log.durable_end_offset <= self.end

    @invariant()
    def same_epochs(self) -> None:
        for entry in self.entries:
            assert self.log.epoch_at(entry.offset) == entry.epoch

    @invariant()
    def outside_is_out_of_range(self) -> None:
        for offset in (self.log_start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 1, self.end)

    # --- the list --------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.kit.clock.now_ms()

    def _open(self) -> None:
        self.directory = self.run(self.kit.open())
        assert not self.directory.quarantined
        self.log = self.directory.logs[self.kit.orders]
        self.durable_before, self.durable = self.durable, self.log.end_offset
        self.cut_is_fresh = False
        self.epoch = max(self.epoch, self.log.last_epoch) + 1

    def _note(self, values: list[bytes], timestamp_ms: int) -> None:
        start = self.end
        for value in values:
            self.entries.append(Entry(self.end, value, timestamp_ms, self.epoch, start))
            self.end += 1

    def _read_all(self) -> None:
        """By searching, not by what the log remembers of its batch boundaries."""
        for segment in self.log._state.segments:
            segment._boundaries.clear()
        for entry in self.entries:
            data = self.log.read(entry.offset, 1, self.end).read()
            assert entry.value in [record.value for record in read_records(data)]

    def _cut_at(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.offset < offset]
        self.end = offset
        self.durable = min(self.durable, offset)
        self._forget_sent()

    def _empty_at(self, offset: int) -> None:
        self.entries = []
        self.log_start = self.end = self.durable = offset
        self.sent = []
        self._forget_sent()

    def _raise_start(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.offset >= offset]
        self.log_start = offset
        self.sent = [sent for sent in self.sent if sent[1] >= offset]

    def _forget_sent(self) -> None:
        """What is left can be sent again; new records come from a new producer."""
        self.sent = [sent for sent in self.sent if sent[2] < self.end]
        self.producer_id += 1
        self.sequence = 0

    def _batch_end(self, start: int) -> int:
        return max(e.offset for e in self.entries if e.batch_start == start) + 1


def _placed(data: bytes) -> list[tuple[BatchHeader, int]]:
    return [(header, position) for position, header in iter_batches(data)]


def test_the_log_is_a_list(kits: "Callable[[], StorageKit]", make_batch: "MakeBatch") -> None:
    class Machine(LogMachine):
        def __init__(self) -> None:
            super().__init__(kits(), make_batch)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
