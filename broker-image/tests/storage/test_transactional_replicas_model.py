"""Two replicas of a log with transactions against a plain list.

Hypothesis picks any order of records and markers at the leader, of fetches, restarts and new copies
of the follower, of deletions and elections. A copy may begin within a transaction. After each step
both replicas must know the same transactions as the list, as far as they have their records.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.log import PartitionLog
from chiplog_wire.records.batch import read_header
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
STEPS = 50
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=50)
PRODUCERS = st.integers(1, 3)


@dataclass
class Replica:
    """One replica, which has the list from the offset `begin` on."""

    kit: "StorageKit"
    directory: LogDirectory
    log: PartitionLog
    begin: int = 0
    high_watermark: int = 0

    def set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self.log.stabilize(offset)


class Replicas(RuleBasedStateMachine):
    """A leader and a follower, and one list."""

    def __init__(self, kits: "Callable[[], StorageKit]") -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.leader, self.follower = self._new(kits()), self._new(kits())
        self.written: list[Written] = []
        self.epoch = 0

    def _new(self, kit: "StorageKit") -> Replica:
        kit.config = CONFIG
        return Replica(kit, *self.run(kit.new_log()))

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    @property
    def now_ms(self) -> int:
        return self.leader.kit.clock.now_ms()

    # --- the leader ----------------------------------------------------------------------

    @rule(producer_id=PRODUCERS, count=st.integers(1, 3))
    def write_in_transaction(self, producer_id: int, count: int) -> None:
        known = dict(self.leader.log.producers()).get(producer_id)
        # The epoch is raised by markers; a copy may not know them.
        epoch = max(
            (one.epoch for one in self.written if one.producer_id == producer_id), default=0
        )
        sequence = 0 if known is None or known.epoch != epoch else known.next_sequence
        producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
        self._write(producer, count, is_transactional=True)

    def _epoch_of(self, producer_id: int) -> int:
        """The producer's epoch, which markers raise; a copy may not know them."""
        epochs = (one.epoch for one in self.written if one.producer_id == producer_id)
        return max(epochs, default=0)

    @rule()
    def write(self) -> None:
        self._write(Producer(), 1, is_transactional=False)

    def _write(self, producer: Producer, count: int, *, is_transactional: bool) -> None:
        start = len(self.written)
        values = [b"%d" % (start + index) for index in range(count)]
        records = [NewRecord(value, timestamp_ms=self.now_ms) for value in values]
        options = BatchOptions(producer=producer, transactional=is_transactional)
        batch = memoryview(build_batch(records, options))
        self.leader.log.append_as_leader(batch, self.epoch, self.now_ms)
        self.written += [
            Written(producer.producer_id, producer.epoch, start, b"", value, is_transactional)
            for value in values
        ]

    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), raises=st.booleans())
    def end(self, producer_id: int, *, is_commit: bool, raises: bool) -> None:
        epoch = self._epoch_of(producer_id) + raises
        marker = EndMarker(is_commit, coordinator_epoch=0)
        producer = Producer(producer_id=producer_id, epoch=epoch)
        self.leader.log.append_marker(
            marker, producer, self.epoch, self.now_ms, epoch_is_raised=raises
        )
        self.written.append(Written(producer_id, epoch, len(self.written), marker=marker))

    @rule(back=st.integers(0, 3))
    def delete_records(self, back: int) -> None:
        offset = max(self.leader.high_watermark - back, 0)
        self.run(self.leader.log.delete_records_before(offset, self.now_ms))

    @rule()
    def elect(self) -> None:
        """The follower leads from now on, if it has all that is committed."""
        if self.follower.log.end_offset < self.leader.high_watermark:
            return
        self.leader, self.follower = self.follower, self.leader
        self.epoch += 1
        self.leader.log.begin_epoch(self.epoch)
        del self.written[self.leader.log.end_offset :]
        log = self.follower.log
        if log.end_offset <= self.leader.log.end_offset:
            return
        if self.leader.log.end_offset < log.log_start_offset:
            self._copy_again()
            return
        self.follower.high_watermark = min(self.follower.high_watermark, self.leader.log.end_offset)
        self.run(log.truncate_to(self.leader.log.end_offset, self.now_ms))
        self.run(log.flush())
        log.stabilize(self.follower.high_watermark)
        if log.log_start_offset == log.end_offset:
            self.follower.begin = min(self.follower.begin, log.end_offset)

    @rule(producer_id=PRODUCERS, is_commit=st.booleans())
    def end_and_elect(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker is lost, and the next leader gets another one."""
        self.fetch(max_bytes=100_000)
        self.end(producer_id, is_commit=is_commit, raises=False)
        self.elect()
        self.end(producer_id, is_commit=not is_commit, raises=False)

    @rule()
    def catch_up(self) -> None:
        self.fetch(max_bytes=100_000)
        self.fetch(max_bytes=100_000)
        self.advance()
        self.fetch(max_bytes=1)

    # --- the follower --------------------------------------------------------------------

    @rule(max_bytes=st.integers(1, 800))
    def fetch(self, max_bytes: int) -> None:
        leader, follower = self.leader.log, self.follower
        if follower.log.end_offset < leader.log_start_offset:
            self._copy_again()
        log = follower.log
        piece = leader.read(log.end_offset, max_bytes, leader.end_offset)
        data = memoryview(bytearray(piece.read()))
        if data:
            found = read_header(data).base_offset
            if found < log.end_offset:
                assert log.end_offset == log.log_start_offset
                self.run(log.truncate_fully_and_start_at(found, self.now_ms))
                follower.begin = found
            log.append_as_follower(data, self.epoch, self.now_ms)
        self.run(log.flush())
        follower.set_high_watermark(
            max(min(self.leader.high_watermark, log.end_offset), follower.high_watermark)
        )
        start = min(leader.log_start_offset, follower.high_watermark)
        if start > log.log_start_offset:
            self.run(log.delete_records_before(start, self.now_ms))

    @rule()
    def advance(self) -> None:
        """The follower's next fetch acknowledges what it has."""
        self.run(self.leader.log.flush())
        offset = min(self.leader.log.end_offset, self.follower.log.end_offset)
        self.leader.set_high_watermark(max(self.leader.high_watermark, offset))

    @rule()
    def copy_again(self) -> None:
        """The replica moves to an empty broker. It does not count until it has caught up."""
        self._copy_again()

    def _copy_again(self) -> None:
        start = self.leader.log.log_start_offset
        self.run(self.follower.log.truncate_fully_and_start_at(start, self.now_ms))
        self.follower.begin = start
        self.follower.high_watermark = start
        self.follower.log.stabilize(start)

    @rule(seed=st.none() | st.integers(0, 2**16), is_leader=st.booleans())
    def crash(self, seed: int | None, *, is_leader: bool) -> None:
        one = self.leader if is_leader else self.follower
        self.run(one.directory.checkpoint({one.kit.orders: one.high_watermark}))
        if is_leader:
            self.run(one.log.flush())
        if seed is None:
            one.kit.kill()
        else:
            one.kit.cut_power(seed)
        one.directory = self.run(one.kit.open())
        assert not one.directory.quarantined
        one.log = one.directory.logs[one.kit.orders]
        one.high_watermark = min(one.high_watermark, one.log.end_offset)
        self.run(one.log.flush())
        one.log.stabilize(one.high_watermark)

    # --- what always holds ---------------------------------------------------------------

    @invariant()
    def both_know_the_transactions(self) -> None:
        for one in (self.leader, self.follower):
            own = self.written[: one.log.end_offset]
            unstable = first_unstable_offset(own, one.high_watermark, one.begin)
            assert one.log.first_unstable_offset == unstable
            stable_offset = min(one.high_watermark, unstable)
            expected = committed(own, one.log.log_start_offset, stable_offset)
            for max_bytes in (200, 100_000):
                found = read_committed(one.log, stable_offset, max_bytes)
                assert found == {offset: two.value for offset, two in expected.items()}


def test_both_replicas_know_the_transactions_of_a_list(
    kits: "Callable[[], StorageKit]",
) -> None:
    class Machine(Replicas):
        def __init__(self) -> None:
            super().__init__(kits)

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
