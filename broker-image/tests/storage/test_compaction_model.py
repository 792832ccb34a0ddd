"""A compacted log against a dictionary.

Hypothesis picks any order of appends with keys, tombstones and codecs, of passes with small
and large maps, of time, restarts, kills and power cuts.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.compaction.key_map import ENTRY_BYTES
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.producers import ProducerStates
from chiplog_wire.records.batch import Codec, check_crc, iter_batches
from chiplog_wire.records.reader import Record, read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

EXAMPLES = 60
RETENTION_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
    file_delete_delay_ms=50,
    message_timestamp_after_max_ms=10**12,
)
KEYS = st.sampled_from([b"a", b"b", b"a key of more than sixteen bytes", b""])
VALUES = st.one_of(st.none(), st.binary(max_size=40))


class CompactedLog(RuleBasedStateMachine):
    """One log, one dictionary."""

    def __init__(self, kit: "StorageKit") -> None:
        super().__init__()
        self.kit = kit
        self.kit.config = CONFIG
        self.loop = asyncio.new_event_loop()
        self.directory, self.log = self.run(kit.new_log())
        self.written: dict[int, tuple[bytes, bytes | None, int]] = {}
        self.end = 0
        self.durable = 0
        self.clean_below = 0
        self.seen_clean: dict[int, int] = {}
        """Tombstones, and when a pass had nothing older left of their keys."""
        self.gone: set[int] = set()

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    @property
    def now(self) -> int:
        return self.kit.clock.now_ms()

    # --- rules ---------------------------------------------------------------------------

    @rule(
        records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6),
        step_ms=st.integers(-500, 500),
        codec=st.sampled_from(Codec),
    )
    def append(self, records: list[tuple[bytes, bytes | None]], step_ms: int, codec: Codec) -> None:
        times = [self.now + step_ms * index for index in range(len(records))]
        made = [
            NewRecord(value, key, time) for (key, value), time in zip(records, times, strict=True)
        ]
        batch = memoryview(build_batch(made, BatchOptions(codec=codec)))
        result = self.log.append_as_leader(batch, max(self.log.last_epoch, 0), self.now)
        assert result.base_offset == self.end
        for (key, value), time in zip(records, times, strict=True):
            self.written[self.end] = (key, value, time)
            self.end += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        self.durable = self.end

    @rule(max_keys=st.integers(1, 5))
    def compact(self, max_keys: int) -> None:
        self.run(self.log.flush())
        self.durable = self.end
        limits = CleanerSettings(
            dedupe_buffer_bytes=max_keys * ENTRY_BYTES, io_max_bytes_per_second=float("inf")
        )
        before = self.log.compaction.cleaner_offset
        cleaner = LogCleaner(self.directory, self.kit.clock)
        cleaned = self.run(cleaner.clean_dirtiest({self.log.partition: self.end}, limits))
        self.clean_below = self.log.compaction.cleaner_offset
        assert cleaned == (self.clean_below > before)
        self._check_clean_part()

    @rule(step_ms=st.integers(1, RETENTION_MS))
    def time_passes(self, step_ms: int) -> None:
        self.kit.clock.time_ms += step_ms
        self.log.remove_expired_files(self.now)

    @rule()
    def checkpoint(self) -> None:
        self.run(self.directory.checkpoint({self.kit.orders: self.durable}))

    @rule()
    def restart(self) -> None:
        self.run(self.directory.close({}, 1))
        self.kit.disk.release_locks()
        self.durable = self.end
        self._open()

    @rule()
    def kill(self) -> None:
        self.kit.kill()
        self._open()

    @rule(seed=st.integers(0, 2**16))
    def cut_power(self, seed: int) -> None:
        self.kit.cut_power(seed)
        self._open()

    @rule(back_ms=st.integers(-1_000, 3_000))
    def look_up_time(self, back_ms: int) -> None:
        timestamp_ms = max(self.now - back_ms, 0)
        expected = next((r for r in self._read() if r.timestamp_ms >= timestamp_ms), None)
        found = self.log.offset_for_timestamp(timestamp_ms, self.end)
        assert (found and found.offset) == (expected and expected.offset)

    # --- what always holds -----------------------------------------------------------------

    @invariant()
    def what_is_there_was_written_there(self) -> None:
        assert self.log.end_offset == self.end
        found = self._read()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            key, value, time = self.written[record.offset]
            assert (record.key, record.value, record.timestamp_ms) == (key, value, time)
        assert not self.gone.intersection(offsets), "a record came back"
        self.gone |= {one for one in self.written if one < self.clean_below} - set(offsets)

    @invariant()
    def every_key_has_its_last_value(self) -> None:
        shown: dict[bytes, bytes | None] = {}
        for record in self._read():
            assert record.key is not None
            shown[record.key] = record.value
        for key, value in self._table(self.end).items():
            assert shown.get(key) == value

    # --- the dictionary ----------------------------------------------------------------------

    def _table(self, end: int) -> dict[bytes, bytes | None]:
        return {
            key: value for offset, (key, value, _) in sorted(self.written.items()) if offset < end
        }

    def _check_clean_part(self) -> None:
        """Below the clean point each key stands once; tombstones go when their time has come."""
        found = {record.offset for record in self._read()}
        last: dict[bytes, int] = {}
        for offset in sorted(self.written):
            if offset < self.clean_below:
                last[self.written[offset][0]] = offset
        assert {one for one in found if one < self.clean_below} <= set(last.values())
        for offset in last.values():
            if self.written[offset][1] is None:
                clean_since = self.seen_clean.setdefault(offset, self.now)
                assert offset in found or self.now >= clean_since + RETENTION_MS

    def _read(self) -> list[Record]:
        found: list[Record] = []
        offset = self.log.log_start_offset
        states = ProducerStates()
        while offset < self.end:
            data = memoryview(self.log.read(offset, 300, self.end).read())
            assert data, offset
            for position, header in iter_batches(data):
                batch = data[position : position + header.size_bytes]
                check_crc(batch, header)
                states.record(header, header.base_offset)
                found += read_records(batch, header)
                offset = header.last_offset + 1
        return found

    def _open(self) -> None:
        self.directory = self.run(self.kit.open())
        assert not self.directory.quarantined
        self.log = self.directory.logs[self.kit.orders]
        assert self.durable <= self.log.end_offset <= self.end
        assert self.log.compaction.cleaner_offset == self.clean_below
        self.end = self.durable = self.log.end_offset
        self.written = {one: record for one, record in self.written.items() if one < self.end}


def test_the_log_is_a_dictionary(kits: "Callable[[], StorageKit]") -> None:
    class Machine(CompactedLog):
        def __init__(self) -> None:
            super().__init__(kits())

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
