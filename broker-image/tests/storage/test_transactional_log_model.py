"""A log with transactions against a plain list, on a disk that can lose power.

Hypothesis picks any order of records, markers of both generations, rolls, truncations, deletions,
retention, compaction, clean restarts, kills and power cuts. After each step the last stable offset,
the producers and what readers with `read_committed` get are compared with the list.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.compaction.key_map import ENTRY_BYTES
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.errors import DiskFullError
from chiplog_broker.storage.producers import ProducerEntry
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.storage.transaction_list import (
    Written,
    committed,
    first_unstable_offset,
    read_committed,
)

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

EXAMPLES = 30
STEPS = 40
RETENTION_MS = 1_000
DELETING = LogConfig(
    segment_bytes=700, index_interval_bytes=100, retention_bytes=2_000, file_delete_delay_ms=50
)
COMPACTING = replace(
    DELETING,
    retention_bytes=-1,
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
PRODUCERS = st.integers(1, 3)


def script(log: "TransactionalLog") -> Iterator[None]:
    """A life of a log with everything that the rules can do, the same each time."""
    for number in range(4):
        for producer_id in (1, 2, 3):
            yield log.write_in_transaction(producer_id, 2, b"a" if number else b"%d" % producer_id)
        yield log.end(1, is_commit=False, raises=number % 2 == 0)
        yield log.checkpoint()
        yield log.end(2, is_commit=True, raises=True)
        yield log.decide_again(1, is_commit=number % 2 == 0, restarts=False)
        yield log.checkpoint()
        yield log.end(3, is_commit=number == 1, raises=True)
        yield log.write(b"b")
        yield log.roll()
        yield log.flush()
        yield log.advance(back=number)
        if log.kit.config.compacts:
            yield log.compact(max_keys=3)
            yield log.pass_time(RETENTION_MS)
        else:
            yield log.delete_records(back=2)
        yield log.expire()
    yield log.restart()


class TransactionalLog(RuleBasedStateMachine):
    """One log, one list."""

    def __init__(self, kit: "StorageKit", config: LogConfig) -> None:
        super().__init__()
        self.kit = kit
        self.kit.config = config
        self.loop = asyncio.new_event_loop()
        self.directory, self.log = self.run(kit.new_log())
        self.written: list[Written] = []
        self.high_watermark = self.durable = 0

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    @property
    def now_ms(self) -> int:
        return self.kit.clock.now_ms()

    # --- the log grows -------------------------------------------------------------------

    @rule(producer_id=PRODUCERS, count=st.integers(1, 3), key=st.sampled_from([b"a", b"b", b"c"]))
    def write_in_transaction(self, producer_id: int, count: int, key: bytes) -> None:
        epoch, sequence = self._next(producer_id)
        producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
        self._write(producer, [key] * count, is_transactional=True)

    @rule(key=st.sampled_from([b"a", b"b", b"c"]))
    def write(self, key: bytes) -> None:
        self._write(Producer(), [key], is_transactional=False)

    def _write(self, producer: Producer, keys: list[bytes], *, is_transactional: bool) -> None:
        start = len(self.written)
        values = [b"%d" % (start + index) for index in range(len(keys))]
        records = [
            NewRecord(value, key, self.now_ms) for key, value in zip(keys, values, strict=True)
        ]
        options = BatchOptions(producer=producer, transactional=is_transactional)
        # First, because a crash may leave what was being written.
        self.written += [
            Written(producer.producer_id, producer.epoch, start, key, value, is_transactional)
            for key, value in zip(keys, values, strict=True)
        ]
        self.log.append_as_leader(memoryview(build_batch(records, options)), 0, self.now_ms)

    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), raises=st.booleans())
    def end(self, producer_id: int, *, is_commit: bool, raises: bool) -> None:
        epoch = self._next(producer_id)[0] + raises
        marker = EndMarker(is_commit, coordinator_epoch=0)
        producer = Producer(producer_id=producer_id, epoch=epoch)
        self.written.append(Written(producer_id, epoch, len(self.written), marker=marker))
        try:
            self.log.append_marker(marker, producer, 0, self.now_ms, epoch_is_raised=raises)
        except DiskFullError:  # a segment had to be finished first
            self.written.pop()

    @rule(producer_id=PRODUCERS, written_share=st.sampled_from([0.0, 0.4, 1.0]))
    def abort_on_a_full_disk(self, producer_id: int, written_share: float) -> None:
        """The entry of the index is written later."""
        self.kit.disk.fail_next("write_at", errno.ENOSPC, ".txnindex", written_share=written_share)
        self.end(producer_id, is_commit=False, raises=False)
        self.kit.disk.fail_no_more()

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        self.durable = len(self.written)

    @rule(back=st.integers(0, 4))
    def advance(self, back: int) -> None:
        self.high_watermark = max(self.high_watermark, self.durable - back)
        self.log.stabilize(self.high_watermark)

    @rule()
    def checkpoint(self) -> None:
        self.run(self.directory.checkpoint({self.kit.orders: self.high_watermark}))

    # --- records go ----------------------------------------------------------------------

    @rule(back=st.integers(0, 6))
    def truncate(self, back: int) -> None:
        offset = max(self.high_watermark, len(self.written) - back)
        ends = self.written[offset:]
        if ends and ends[0].batch_start < self.log.log_start_offset:
            return  # nothing would stay, not even the producers of deleted records
        self.durable = min(self.durable, offset)
        self.run(self.log.truncate_to(offset, self.now_ms))
        self.run(self.log.flush())  # as a follower does: until then a crash may undo it
        # The rest of the batch goes as well.
        if offset < len(self.written):
            offset = self.written[offset].batch_start
        if self.kit.config.compacts:
            offset = self.log.end_offset  # before a gap, too
        assert self.log.end_offset == offset
        self.high_watermark = min(self.high_watermark, offset)
        del self.written[offset:]
        self.durable = len(self.written)
        self.log.stabilize(self.high_watermark)

    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), restarts=st.booleans())
    def decide_again(self, producer_id: int, *, is_commit: bool, restarts: bool) -> None:
        """A marker is lost, and the transaction ends in another way."""
        self.write_in_transaction(producer_id, 1, b"a")
        self.end(producer_id, is_commit=is_commit, raises=False)
        self.truncate(back=1)
        if restarts:
            self.kill()
        self.end(producer_id, is_commit=not is_commit, raises=False)
        self.flush()
        self.advance(back=0)

    @rule(back=st.integers(0, 6))
    def delete_records(self, back: int) -> None:
        offset = max(self.high_watermark - back, 0)
        self.run(self.log.delete_records_before(offset, self.now_ms))

    @rule()
    def expire(self) -> None:
        self.run(self.log.enforce_retention(self.high_watermark, self.now_ms))

    @precondition(lambda self: self.kit.config.compacts)
    @rule(max_keys=st.integers(1, 5))
    def compact(self, max_keys: int) -> None:
        limits = CleanerSettings(
            dedupe_buffer_bytes=max_keys * ENTRY_BYTES, io_max_bytes_per_second=float("inf")
        )
        cleaner = LogCleaner(self.directory, self.kit.clock)
        self.run(cleaner.clean_dirtiest({self.kit.orders: self.high_watermark}, limits))

    @rule(step_ms=st.integers(1, RETENTION_MS))
    def pass_time(self, step_ms: int) -> None:
        self.kit.clock.time_ms += step_ms
        self.log.remove_expired_files(self.now_ms)

    # --- the process ends ----------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.run(self.directory.close({self.kit.orders: self.high_watermark}, 1))
        self.kit.disk.release_locks()
        self.durable = len(self.written)
        self._open()

    @rule()
    def kill(self) -> None:
        self.kit.kill()
        self._open()

    @rule(seed=st.integers(0, 2**16))
    def cut_power(self, seed: int) -> None:
        self.kit.cut_power(seed)
        self._open()

    def _open(self) -> None:
        self.directory = self.run(self.kit.open())
        assert not self.directory.quarantined
        self.log = self.directory.logs[self.kit.orders]
        assert self.durable <= self.log.end_offset <= len(self.written)
        del self.written[self.log.end_offset :]
        self.run(self.log.flush())
        self.durable = len(self.written)
        self.log.stabilize(self.high_watermark)

    # --- what always holds ---------------------------------------------------------------

    @invariant()
    def the_last_stable_offset_is_right(self) -> None:
        unstable = first_unstable_offset(self.written, self.high_watermark)
        assert self.log.first_unstable_offset == unstable

    @invariant()
    def readers_get_the_committed_records(self) -> None:
        stable_offset = min(self.high_watermark, self.log.first_unstable_offset)
        expected = committed(self.written, self.log.log_start_offset, stable_offset)
        for max_bytes in (200, 100_000):
            found = read_committed(self.log, stable_offset, max_bytes)
            for offset, value in found.items():
                assert value == expected[offset].value
            if not self.kit.config.compacts:
                assert found.keys() == expected.keys()
            newest = {one.key: offset for offset, one in expected.items()}
            assert found.keys() >= set(newest.values())

    @invariant()
    def the_producers_are_known(self) -> None:
        known = dict(self.log.producers())
        for producer_id in {one.producer_id for one in self.written if one.producer_id >= 0}:
            epoch, sequence = self._next(producer_id)
            entry = known.get(producer_id, ProducerEntry())
            assert (entry.epoch, entry.next_sequence) == (epoch, sequence)

    def _next(self, producer_id: int) -> tuple[int, int]:
        """The producer's epoch, and the sequence number of its next record."""
        own = [one for one in self.written if one.producer_id == producer_id]
        epoch = own[-1].epoch if own else 0
        return epoch, sum(one.epoch == epoch and one.marker is None for one in own)


@pytest.mark.parametrize("config", [DELETING, COMPACTING], ids=["deleting", "compacting"])
def test_transactions_are_those_of_a_list(
    kits: "Callable[[], StorageKit]", config: LogConfig
) -> None:
    class Machine(TransactionalLog):
        def __init__(self) -> None:
            super().__init__(kits(), config)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("config", [DELETING, COMPACTING], ids=["deleting", "compacting"])
def test_a_crash_at_every_change(
    kits: "Callable[[], StorageKit]", power_cut: type[Exception], config: LogConfig
) -> None:
    """Every other one ends the process only, not the machine."""
    whole = TransactionalLog(kits(), config)
    begin = whole.kit.disk.operations
    for _ in script(whole):
        pass
    whole.teardown()
    end = whole.kit.disk.operations
    assert end - begin > 150
    for operation in range(begin + 1, end + 1):
        log = TransactionalLog(kits(), config)
        log.kit.disk.cut_power_at(operation)
        with closing(log.loop):
            with pytest.raises(power_cut):
                for _ in script(log):
                    pass
            if operation % 2:
                log.kill()
            else:
                log.cut_power(operation)
            log.the_last_stable_offset_is_right()
            log.readers_get_the_committed_records()
            log.the_producers_are_known()
