"""A retry of one of a producer's last five batches is the duplicate that it is, whatever happened.

Hypothesis lets producers send batches with any timestamps to a leader with one follower, and in
between restarts brokers, lets their clocks step, cuts logs, deletes records, makes the follower
anew and lets it lead. After every step each of the last five batches of each producer, which may
all be in flight, is sent again: it must be answered with the offsets that it got, and not stored.
"""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import OutOfOrderSequenceError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.producers import UNKNOWN_OFFSET
from chiplog_wire.records.batch import iter_batches
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

EXAMPLES = 100
IN_FLIGHT = 5
MINUTE_MS = 60_000
DAY_MS = 86_400_000
NOW = 1_700_000_000_000
ANY_TIME = LogConfig(
    segment_bytes=700,
    index_interval_bytes=100,
    message_timestamp_after_max_ms=2**63 - 1,
    durability=Durability.FSYNC,
)


@dataclass(frozen=True)
class Sent:
    """A batch in the log."""

    producer_id: int
    data: bytes
    first_offset: int
    last_offset: int


@dataclass
class Replica:
    """One broker's copy, and from where on it has seen what was written."""

    kit: "StorageKit"
    directory: LogDirectory
    log: PartitionLog
    begins_at: int = 0


@dataclass
class Sender:
    """What a producer knows of itself."""

    epoch: int = 0
    sequence: int = 0
    sent: list[Sent] = field(default_factory=list)


class Retries(RuleBasedStateMachine):
    """A leader, a follower, three producers."""

    def __init__(self, kits: "Callable[[], StorageKit]", make_batch: "MakeBatch") -> None:
        super().__init__()
        self.kits = kits
        self.clock = kits().clock
        self.clock.time_ms = NOW
        self.make_batch = make_batch
        self.loop = asyncio.new_event_loop()
        self.leader, self.follower = self._new_replica(), self._new_replica()
        self.leader_epoch = 0
        self.senders = [Sender() for _ in range(3)]

    def teardown(self) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    # --- rules ---------------------------------------------------------------------------

    @rule(
        number=st.integers(0, 2),
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=IN_FLIGHT),
        timestamp_ms=st.integers(0, 2**62),
    )
    def send(self, number: int, counts: list[int], timestamp_ms: int) -> None:
        for count in counts:
            self._send(number, count, timestamp_ms)

    @rule(number=st.integers(0, 2), days=st.integers(1, 1_000))
    def import_day_by_day(self, number: int, days: int) -> None:
        """A backfill: each batch holds the events of some days later."""
        for step in range(IN_FLIGHT):
            self._send(number, 2, NOW - 4_000 * DAY_MS + step * days * DAY_MS)

    @rule(number=st.integers(0, 2))
    def next_producer_epoch(self, number: int) -> None:
        sender = self.senders[number]
        sender.epoch += 1
        sender.sequence, sender.sent = 0, []

    @rule(hours=st.integers(-48, 48))
    def wall_clock_steps(self, hours: int) -> None:
        self.clock.step_ms += hours * 60 * MINUTE_MS

    @rule(minutes=st.integers(0, 20))
    def time_passes(self, minutes: int) -> None:
        self.clock.time_ms += minutes * MINUTE_MS

    @rule()
    def look_for_the_idle(self) -> None:
        for replica in (self.leader, self.follower):
            replica.directory.forget_idle_producers(DAY_MS)

    @rule()
    def roll(self) -> None:
        self.leader.log.roll(self.clock.now_ms())

    @rule(is_leader=st.booleans())
    def flush(self, is_leader: bool) -> None:
        replica = self.leader if is_leader else self.follower
        self.run(replica.log.flush())

    @rule(is_leader=st.booleans())
    def checkpoint(self, is_leader: bool) -> None:
        replica = self.leader if is_leader else self.follower
        self.run(replica.directory.checkpoint({}))

    @rule()
    def replicate(self) -> None:
        leader, log = self.leader.log, self.follower.log
        if log.end_offset < leader.log_start_offset:
            self._begin_at_start_of(leader)
        while log.end_offset < leader.end_offset:
            offset = max(log.end_offset, leader.log_start_offset)
            data = leader.read(offset, 500, leader.end_offset).read()
            log.append_as_follower(memoryview(data), self.leader_epoch, self.now)
        self.run(log.delete_records_before(leader.log_start_offset, self.now))

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        log = self.leader.log
        offset = round(log.log_start_offset + where * (log.end_offset - log.log_start_offset))
        if offset > log.log_start_offset:
            self._truncate(self.leader, offset)
            self._follow()

    @rule(where=st.floats(0, 1), is_checkpointed=st.booleans())
    def delete_records(self, where: float, is_checkpointed: bool) -> None:
        self.replicate()
        log = self.leader.log
        offset = round(log.log_start_offset + where * (log.end_offset - log.log_start_offset))
        for replica in (self.leader, self.follower):
            # Only what is committed may be deleted, and what is committed is durable.
            self.run(replica.log.make_durable(offset))
            if is_checkpointed:
                self.run(replica.directory.checkpoint({}))
            self.run(replica.log.delete_records_before(offset, self.now))

    @rule(is_leader=st.booleans())
    def restart_cleanly(self, is_leader: bool) -> None:
        replica = self.leader if is_leader else self.follower
        self.run(replica.directory.close({}, 1))
        replica.kit.disk.release_locks()
        self._open(replica)

    @rule(is_leader=st.booleans())
    def kill(self, is_leader: bool) -> None:
        replica = self.leader if is_leader else self.follower
        replica.kit.kill()
        self._open(replica)

    @rule()
    def make_the_follower_anew(self) -> None:
        self.follower = self._new_replica()
        self.replicate()

    @rule()
    def fail_over(self) -> None:
        self.leader, self.follower = self.follower, self.leader
        self._follow()

    # --- what always holds -----------------------------------------------------------------

    @invariant()
    def retries_are_duplicates(self) -> None:
        log = self.leader.log
        end_offset = log.end_offset
        for sent in self._in_flight():
            result = log.append_as_leader(memoryview(sent.data), self.leader_epoch, self.now)
            assert result.duplicate
            assert (result.base_offset, result.last_offset) == (sent.first_offset, sent.last_offset)
        assert log.end_offset == end_offset

    @invariant()
    def retries_of_long_ago_are_not_stored(self) -> None:
        """Where they are known the answer waits for every offset that they may have."""
        log = self.leader.log
        end_offset = log.end_offset
        for sender in self.senders:
            here = [one for one in sender.sent if one.first_offset >= self.leader.begins_at]
            for sent in here[:-IN_FLIGHT]:
                with suppress(OutOfOrderSequenceError):
                    result = log.append_as_leader(
                        memoryview(sent.data), self.leader_epoch, self.now
                    )
                    assert result.duplicate
                    assert result.base_offset == UNKNOWN_OFFSET
                    assert sent.last_offset <= result.last_offset < log.end_offset
        assert log.end_offset == end_offset

    # --- inner workings ----------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def _in_flight(self) -> list[Sent]:
        return [
            sent
            for sender in self.senders
            for sent in sender.sent[-IN_FLIGHT:]
            if sent.first_offset >= self.leader.begins_at
        ]

    def _send(self, number: int, count: int, timestamp_ms: int) -> None:
        sender = self.senders[number]
        producer = Producer(producer_id=number, epoch=sender.epoch, base_sequence=sender.sequence)
        values = [b"%d-%d" % (number, sender.sequence + step) for step in range(count)]
        data = bytes(self.make_batch(values, timestamp_ms=timestamp_ms, producer=producer))
        result = self.leader.log.append_as_leader(memoryview(data), self.leader_epoch, self.now)
        assert not result.duplicate
        sender.sequence += count
        sender.sent.append(Sent(number, data, result.base_offset, result.last_offset))

    def _new_replica(self) -> Replica:
        kit = self.kits()
        kit.clock, kit.config = self.clock, ANY_TIME
        directory, log = self.run(kit.new_log())
        return Replica(kit, directory, log)

    def _open(self, replica: Replica) -> None:
        replica.directory = self.run(replica.kit.open())
        assert not replica.directory.quarantined
        replica.log = replica.directory.logs[replica.kit.orders]
        self._follow()

    def _begin_at_start_of(self, leader: PartitionLog) -> None:
        """The follower has nothing that the leader still has."""
        start = leader.log_start_offset
        data = leader.read(start, 1, leader.end_offset).read()
        begins_at = next((header.base_offset for _, header in iter_batches(data)), start)
        self.run(self.follower.log.truncate_fully_and_start_at(begins_at, self.now))
        self.follower.begins_at = begins_at

    def _truncate(self, replica: Replica, offset: int) -> None:
        log = replica.log
        start, cuts_the_batch_of_start = log.log_start_offset, offset < log.log_start_offset
        if start <= offset < log.end_offset:
            data = log.read(offset, 1, log.end_offset).read()
            cuts_the_batch_of_start = next(iter_batches(data))[1].base_offset < start
        self.run(log.truncate_to(offset, self.now))
        if cuts_the_batch_of_start:
            # No part of that batch may stay, so the log has begun again.
            replica.begins_at = log.end_offset

    def _follow(self) -> None:
        """What the leader has not is gone: from the follower, and for producers that send on."""
        end_offset = self.leader.log.end_offset
        if self.follower.log.end_offset > end_offset:
            self._truncate(self.follower, end_offset)
        for sender in self.senders:
            while sender.sent and sender.sent[-1].last_offset >= end_offset:
                gone = sender.sent.pop()
                sender.sequence -= gone.last_offset - gone.first_offset + 1
        self.leader_epoch += 1


def test_retries_are_known(kits: "Callable[[], StorageKit]", make_batch: "MakeBatch") -> None:
    class Machine(Retries):
        def __init__(self) -> None:
            super().__init__(kits, make_batch)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


DAYS = 5


def import_of(make_batch: "MakeBatch", day: int) -> memoryview:
    """A batch of last year's records, each batch one day later."""
    producer = Producer(producer_id=5, epoch=0, base_sequence=2 * day)
    timestamp_ms = NOW - (365 - day) * DAY_MS
    return make_batch([b"a", b"b"], timestamp_ms=timestamp_ms, producer=producer)


def check_all_known(log: PartitionLog, make_batch: "MakeBatch") -> None:
    for day in range(DAYS):
        result = log.append_as_leader(import_of(make_batch, day), 1, NOW)
        assert result.duplicate
        assert result.base_offset == 2 * day


async def imported(kit: "StorageKit", make_batch: "MakeBatch") -> tuple[LogDirectory, PartitionLog]:
    directory, log = await kit.new_log()
    for day in range(DAYS):
        log.append_as_leader(import_of(make_batch, day), 1, NOW)
    return directory, log


def test_an_import_of_many_days(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        directory, log = await imported(kit, make_batch)
        check_all_known(log, make_batch)
        await directory.close({}, 1)
        check_all_known(await kit.reopened(), make_batch)

    kit.run(scenario())


def test_an_import_beside_records_of_today(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        _, log = await imported(kit, make_batch)
        log.append_as_leader(make_batch([b"today"], timestamp_ms=NOW), 1, NOW)
        check_all_known(log, make_batch)
        log.roll(NOW)
        check_all_known(log, make_batch)

    kit.run(scenario())


@pytest.mark.parametrize("is_clean", [True, False])
def test_retries_of_records_that_were_deleted(
    kit: "StorageKit", make_batch: "MakeBatch", is_clean: bool
) -> None:
    """As programs do that purge what they have read, such as Kafka Streams."""

    async def scenario() -> None:
        directory, log = await imported(kit, make_batch)
        log.roll(NOW)
        log.append_as_leader(make_batch([b"other"]), 1, NOW)
        await log.make_durable(2 * DAYS)
        await log.delete_records_before(2 * DAYS, NOW)
        if is_clean:
            await directory.close({}, 1)
        else:
            kit.kill()
        log = await kit.reopened()
        assert log.log_start_offset == 2 * DAYS
        check_all_known(log, make_batch)

    kit.run(scenario())


def test_retries_of_records_that_were_deleted_after_a_crash(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The snapshot of a segment that ended just before the crash is written by recovery."""

    async def scenario() -> None:
        _, log = await imported(kit, make_batch)
        log.roll(NOW)
        log.append_as_leader(make_batch([b"other"]), 1, NOW)
        kit.kill()
        log = await kit.reopened()
        await log.make_durable(2 * DAYS)
        await log.delete_records_before(2 * DAYS, NOW)
        kit.kill()
        log = await kit.reopened()
        assert log.log_start_offset == 2 * DAYS
        check_all_known(log, make_batch)

    kit.run(scenario())


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_retries_of_records_whose_segment_ended_after_they_were_deleted(
    kit: "StorageKit", make_batch: "MakeBatch", is_checkpointed: bool
) -> None:
    async def scenario() -> None:
        directory, log = await imported(kit, make_batch)
        await log.make_durable(2 * DAYS)
        if is_checkpointed:
            await directory.checkpoint({})
        await log.delete_records_before(2 * DAYS, NOW)
        log.roll(NOW)
        kit.kill()
        log = await kit.reopened()
        assert log.log_start_offset == 2 * DAYS
        check_all_known(log, make_batch)
        log.append_as_leader(make_batch([b"other"]), 1, NOW)
        await log.delete_records_before(2 * DAYS + 1, NOW)
        check_all_known(log, make_batch)

    kit.run(scenario())


def test_a_snapshot_for_which_there_was_no_room(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """It waits in memory only. The next process does not miss it, and lets the batches go."""
    mine = Producer(producer_id=7, epoch=0, base_sequence=0)

    async def first() -> None:
        kit.config = LogConfig(durability=Durability.FSYNC)
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW)
        log.roll(NOW)
        log.append_as_leader(make_batch([b"other"]), 1, NOW)
        kit.disk.fail_next("replace", errno.ENOSPC, ".snapshot")
        await log.make_durable(2)
        await directory.checkpoint({kit.orders: 2})

    async def second() -> None:
        log = await kit.reopened()
        await log.flush()
        await log.delete_records_before(1, NOW)
        await log.flush()
        assert log.segment_count == 1
        assert log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW).duplicate

    async def third() -> None:
        log = await kit.reopened()
        assert log.append_as_leader(make_batch([b"mine"], producer=mine), 1, NOW).duplicate

    kit.run(first())
    kit.kill()
    kit.run(second())
    kit.kill()
    kit.run(third())


def test_what_is_not_sent_for_a_day_is_forgotten(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory, log = await imported(kit, make_batch)
        kit.clock.time_ms += DAY_MS - 1
        directory.forget_idle_producers(DAY_MS)
        check_all_known(log, make_batch)
        kit.clock.step_ms -= 2 * DAY_MS
        kit.clock.time_ms += 1
        directory.forget_idle_producers(DAY_MS)
        assert log.producer_count == 0

    kit.run(scenario())
