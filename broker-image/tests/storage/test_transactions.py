"""Transactions of a log: the last stable offset, the index of aborted ones, and their recovery."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
)
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.log_appender import Origin
from chiplog_broker.storage.producer_snapshot import decode_snapshot, encode_snapshot
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.transaction_index import AbortedTransaction
from chiplog_broker.storage.transactions import NO_UNSTABLE_OFFSET, UnsafeEnd
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.storage.transaction_list import read_committed

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

NOW_MS = 1_000_000
OF_COORDINATOR = Origin(is_coordinator=True, may_begin=True)
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
ABORT, COMMIT = EndMarker(is_commit=False, coordinator_epoch=3), EndMarker(True, 3)


def data(
    value: bytes, producer_id: int, sequence: int = 0, *, epoch: int = 0, transactional: bool = True
) -> memoryview:
    producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
    record = NewRecord(value, timestamp_ms=NOW_MS)
    return memoryview(
        build_batch([record], BatchOptions(producer=producer, transactional=transactional))
    )


def end(log: PartitionLog, producer_id: int, marker: EndMarker, epoch: int = 0) -> int:
    producer = Producer(producer_id=producer_id, epoch=epoch)
    return log.append_marker(marker, producer, 0, NOW_MS).base_offset


@dataclass
class Model:
    """What was written: (producer id or None, value) of each offset, or a marker."""

    written: list[tuple[int | None, bytes | EndMarker]] = field(default_factory=list)

    def open_from(self, up_to: int, high_watermark: int) -> int:
        """The first offset of the oldest transaction without a marker below the high watermark."""
        begun: dict[int, int] = {}
        oldest = []
        for offset, (producer_id, value) in enumerate(self.written[:up_to]):
            if producer_id is None:
                continue
            if isinstance(value, bytes):
                begun.setdefault(producer_id, offset)
            elif producer_id in begun:
                first = begun.pop(producer_id)
                if offset >= high_watermark:
                    oldest.append(first)
        return min([*oldest, *begun.values()], default=NO_UNSTABLE_OFFSET)

    def committed(self, start: int, stable_offset: int) -> list[bytes]:
        found: dict[int, bytes] = {}
        pending: dict[int, dict[int, bytes]] = {}
        for offset, (producer_id, value) in enumerate(self.written):
            if producer_id is None:
                assert isinstance(value, bytes)
                found[offset] = value
            elif isinstance(value, bytes):
                pending.setdefault(producer_id, {})[offset] = value
            else:
                records = pending.pop(producer_id, {})
                if value.is_commit:
                    found |= records
        return [found[offset] for offset in sorted(found) if start <= offset < stable_offset]


class Script:
    """Runs steps against a log and the model."""

    def __init__(self, kit: "StorageKit", directory: LogDirectory, log: PartitionLog) -> None:
        self.kit, self.directory, self.log, self.model = kit, directory, log, Model()
        self.sequences: dict[int, int] = {}
        self.high_watermark = 0

    async def step(self, kind: str, number: int) -> None:
        log, model, producer_id = self.log, self.model, number % 3 + 1
        value = b"%d" % len(model.written)
        match kind:
            case "plain":
                record = NewRecord(value, timestamp_ms=NOW_MS)
                log.append_as_leader(memoryview(build_batch([record])), 0, NOW_MS)
                model.written.append((None, value))
            case "data":
                sequence = self.sequences.get(producer_id, 0)
                self.sequences[producer_id] = sequence + 1
                log.append_as_leader(data(value, producer_id, sequence), 0, NOW_MS)
                model.written.append((producer_id, value))
            case "commit" | "abort":
                marker = COMMIT if kind == "commit" else ABORT
                end(log, producer_id, marker)
                model.written.append((producer_id, marker))
            case "advance":
                self.high_watermark = max(
                    self.high_watermark, log.end_offset - number % 4, log.log_start_offset
                )
                log.stabilize(self.high_watermark)
            case "truncate":
                await log.truncate_to(max(self.high_watermark, log.end_offset - number % 5), NOW_MS)
                del model.written[log.end_offset :]
                self._renumber()
            case "kill" | "power" | "close":
                await self._restart(kind, number)
        assert log.end_offset == len(model.written)
        unstable = model.open_from(log.end_offset, self.high_watermark)
        assert self.log.first_unstable_offset == unstable

    async def _restart(self, kind: str, number: int) -> None:
        await self.log.flush()
        if kind == "close":
            await self.directory.close({}, 1)
        elif kind == "kill":
            self.kit.kill()
        else:
            self.kit.cut_power(number)
        self.directory = await self.kit.open_again()
        self.log = self.directory.logs[self.kit.orders]
        self.log.stabilize(self.high_watermark)
        self.check()

    def _renumber(self) -> None:
        """After a truncation producers continue where their records in the log end."""
        self.sequences.clear()
        for producer_id, value in self.model.written:
            if producer_id is not None and isinstance(value, bytes):
                self.sequences[producer_id] = self.sequences.get(producer_id, 0) + 1

    def check(self) -> None:
        log, model = self.log, self.model
        stable = min(self.high_watermark, log.first_unstable_offset)
        for start in {0, stable // 2, max(stable - 1, 0)}:
            for max_bytes in (150, 100_000):
                found = read_committed(log, stable, max_bytes, start)
                assert list(found.values()) == model.committed(start, stable)


KINDS = ["plain", "data", "data", "data", "commit", "abort", "abort", "advance", "truncate"]
KINDS += ["kill", "power", "close"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 20),
    ),
    min_size=10,
    max_size=40,
)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_readers_get_the_committed_records(
    kits: "Callable[[], StorageKit]", steps: list[tuple[str, int]]
) -> None:
    async def scenario() -> None:
        kit = kits()
        kit.config = SMALL
        script = Script(kit, *await kit.new_log())
        for kind, number in steps:
            await script.step(kind, number)
        script.check()
        # A follower that fetches everything knows the same transactions.
        kit = kits()
        kit.config = SMALL
        _, follower = await kit.new_log()
        leader = script.log
        while follower.end_offset < leader.end_offset:
            batches = leader.read(follower.end_offset, 400, leader.end_offset).read()
            follower.append_as_follower(memoryview(bytearray(batches)), 0, NOW_MS)
        follower.stabilize(script.high_watermark)
        assert follower.first_unstable_offset == leader.first_unstable_offset
        everything = 0, leader.end_offset
        assert follower.aborted_transactions(*everything) == leader.aborted_transactions(
            *everything
        )

    kits().run(scenario())


def test_an_entry_has_the_last_stable_offset_after_the_marker(kit: "StorageKit") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        for producer_id in (1, 2, 3):
            log.append_as_leader(data(b"x", producer_id), 0, NOW_MS)
        end(log, 2, ABORT)
        end(log, 1, ABORT)
        end(log, 3, COMMIT)
        assert log.aborted_transactions(0, 6) == [
            AbortedTransaction(2, 1, 3, 0),
            AbortedTransaction(1, 0, 4, 2),
        ]
        assert log.aborted_transactions(4, 6) == [AbortedTransaction(1, 0, 4, 2)]
        assert log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0, 4, 2)]
        # The format of Kafka's file: version, producer id, first, last, last stable offset.
        content = kit.disk.content(kit.path(f"{0:020d}.txnindex"))
        assert content.hex() == "".join(
            f"0000{producer_id:016x}{first:016x}{last:016x}{stable:016x}"
            for producer_id, first, last, stable in [(2, 1, 3, 0), (1, 0, 4, 2)]
        )

    kit.run(scenario())


def test_a_marker_without_records_ends_nothing(kit: "StorageKit") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        end(log, 1, ABORT)
        assert log.first_unstable_offset == NO_UNSTABLE_OFFSET
        assert log.aborted_transactions(0, 1) == []
        assert not kit.disk.exists(kit.path(f"{0:020d}.txnindex"))

    kit.run(scenario())


def test_who_may_write_into_a_transaction(kit: "StorageKit") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(data(b"x", 1), 0, NOW_MS)
        with pytest.raises(InvalidTransactionStateError):
            log.append_as_leader(data(b"x", 1, 1, transactional=False), 0, NOW_MS)
        with pytest.raises(InvalidTransactionStateError):
            log.append_as_leader(data(b"x", 1, 0, epoch=1, transactional=False), 0, NOW_MS)
        end(log, 1, COMMIT, epoch=1)
        with pytest.raises(InvalidProducerEpochError):
            log.append_as_leader(data(b"x", 1, 1), 0, NOW_MS)
        log.append_as_leader(data(b"x", 1, 0, epoch=1, transactional=False), 0, NOW_MS)

    kit.run(scenario())


def test_which_markers_are_refused(kit: "StorageKit") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(data(b"x", 1, epoch=5), 0, NOW_MS)
        with pytest.raises(InvalidProducerEpochError):
            end(log, 1, COMMIT, epoch=4)
        end(log, 1, COMMIT, epoch=5)
        with pytest.raises(CoordinatorFencedError):
            end(log, 1, COMMIT._replace(coordinator_epoch=2), epoch=5)
        assert end(log, 1, COMMIT._replace(coordinator_epoch=4), epoch=5) == 2

    kit.run(scenario())


def test_a_late_marker_does_not_end_the_next_transaction(kit: "StorageKit") -> None:
    """KAFKA-19999: it may be written again as long as none is open."""

    async def scenario() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(data(b"x", 1), 0, NOW_MS)
        marker = ABORT, Producer(producer_id=1, epoch=1), 0, NOW_MS
        log.append_marker(*marker, epoch_is_raised=True)
        log.append_marker(*marker, epoch_is_raised=True)
        log.append_as_leader(data(b"y", 1, epoch=1), 0, NOW_MS)
        with pytest.raises(InvalidProducerEpochError):
            log.append_marker(*marker, epoch_is_raised=True)
        assert log.end_offset == 4

    kit.run(scenario())


def test_offsets_in_a_transaction_have_no_sequence_numbers(kit: "StorageKit") -> None:
    async def scenario() -> None:
        _, log = await kit.new_log()
        for offset in range(2):
            appended = log.append_as_leader(data(b"x", 1), 0, NOW_MS, origin=OF_COORDINATOR)
            assert (appended.base_offset, appended.duplicate) == (offset, False)
        end(log, 1, COMMIT, epoch=1)
        with pytest.raises(InvalidProducerEpochError):
            log.append_as_leader(data(b"x", 1), 0, NOW_MS, origin=OF_COORDINATOR)

    kit.run(scenario())


@pytest.mark.parametrize("changed", ["cut", "version", "removed"])
def test_a_wrong_index_is_built_again(kit: "StorageKit", changed: str) -> None:
    """After a crash that of the last segment; the others only if they show that they are wrong."""

    async def scenario() -> None:
        kit.config = SMALL
        directory, log = await kit.new_log()
        for number in range(8):
            log.append_as_leader(data(b"x" * 50, 1, number), 0, NOW_MS)
            log.append_as_leader(data(b"x" * 50, 2, number), 0, NOW_MS)
            end(log, 1, ABORT)
            end(log, 2, COMMIT if number % 2 else ABORT)
        await log.flush()
        aborted = log.aborted_transactions(0, log.end_offset)
        assert len(aborted) == 12
        names = [name for name in kit.disk.names(kit.orders.directory) if "txnindex" in name]
        assert len(names) > 2
        if changed == "removed":
            kit.kill()
            kit.disk.remove(kit.path(names[-1]))
        else:
            await directory.close({}, 1)
            kit.disk.release_locks()
            for name in names:
                file = kit.disk.open(kit.path(name))
                if changed == "cut":
                    file.truncate(file.size() - 1)
                else:
                    file.write_at(file.size() - 34, b"\x00\x09")
        log = await kit.reopened()
        assert log.aborted_transactions(0, log.end_offset) == aborted
        await log.flush()
        kit.cut_power(1)
        log = await kit.reopened()
        assert log.aborted_transactions(0, log.end_offset) == aborted

    kit.run(scenario())


def test_a_snapshot_keeps_transactions_with_unsafe_ends() -> None:
    from chiplog_wire.records.batch import read_header  # noqa: PLC0415

    states = ProducerStates()
    states.record(read_header(data(b"x", 1)), 0)
    states.record(read_header(data(b"x", 2)), 1)
    control = read_header(
        build_batch(
            [NewRecord(b"x")],
            BatchOptions(producer=Producer(producer_id=1, epoch=0), control=True),
        )
    )
    states.record(control, 2, ABORT)
    content = decode_snapshot(encode_snapshot(states, NOW_MS))
    read = ProducerStates(3, *content)
    transactions = read.transactions
    assert transactions.first_unstable_offset == 0
    transactions.stabilize(2)
    assert transactions.first_unstable_offset == 0
    transactions.stabilize(3)
    assert transactions.first_unstable_offset == 1
    entry = read.get(1)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.transaction_start, len(entry.batches)) == (3, -1, 1)


def test_deleted_records_of_an_open_transaction(kit: "StorageKit") -> None:
    """Its marker still ends it."""

    async def scenario() -> None:
        kit.config = SMALL
        _, log = await kit.new_log()
        for number in range(6):
            log.append_as_leader(data(b"x" * 200, 1, number), 0, NOW_MS)
        await log.flush()
        await log.delete_records_before(4, NOW_MS)
        kit.kill()
        log = await kit.reopened()
        assert log.first_unstable_offset == 0
        end(log, 1, ABORT)
        assert log.aborted_transactions(4, 7) == [AbortedTransaction(1, 0, 6, 7)]

    kit.run(scenario())


def test_decided_transactions_are_not_remembered_when_the_log_is_read_again(
    kit: "StorageKit",
) -> None:
    """A segment may have the ends of millions: neither memory nor the next snapshot has room."""

    async def scenario() -> None:
        directory, log = await kit.new_log()
        for number in range(20):
            log.append_as_leader(data(b"x", 1, number), 0, NOW_MS)
            end(log, 1, ABORT)
        await log.flush()
        await directory.checkpoint({kit.orders: 36})
        kit.kill()
        log = await kit.reopened()
        assert log.first_unstable_offset == 36
        await log.truncate_to(39, NOW_MS)
        log.roll(NOW_MS)
        await log.flush()
        snapshot = decode_snapshot(bytes(kit.disk.content(kit.path(f"{39:020d}.snapshot"))))
        assert snapshot.unsafe == [UnsafeEnd(36, 37, 1)]
        assert log.first_unstable_offset == 36
        log.stabilize(39)
        assert log.first_unstable_offset == 38
        await log.truncate_to(38, NOW_MS)
        assert log.first_unstable_offset == NO_UNSTABLE_OFFSET

    kit.run(scenario())
