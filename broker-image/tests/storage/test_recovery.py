"""Opening what a crash, a failing disk or a careless hand left behind."""

import asyncio
import errno
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.directory_report import PartitionReport, Verdict
from chiplog_broker.storage.producer_snapshot import encode_snapshot
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.recovery import LogRecovery, LogSource
from chiplog_wire.records.batch import iter_batches, read_header, set_place
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
BATCH_BYTES = 77
SMALL = LogConfig(segment_bytes=3 * BATCH_BYTES, index_interval_bytes=BATCH_BYTES - 1)
FIRST, SECOND, LAST = (f"{base:020d}" for base in (0, 6, 18))


async def write(
    kit: "StorageKit", make_batch: "MakeBatch", *, durable: int = 20, checkpointed: int = 14
) -> LogDirectory:
    """Ten batches of two records: three segments of three, one of one."""
    kit.config = SMALL
    directory, log = await kit.new_log()
    for number in range(10):
        producer = Producer(producer_id=5, epoch=0, base_sequence=2 * number)
        batch = make_batch([b"%02d" % number, b""], timestamp_ms=NOW + number, producer=producer)
        assert len(batch) == BATCH_BYTES
        log.append_as_leader(batch, number // 4, NOW)
        if log.end_offset == checkpointed:
            await log.flush()
            await directory.checkpoint({kit.orders: 12})
        if log.end_offset <= durable:
            await log.make_durable(log.end_offset)
    return directory


def remove_snapshots(kit: "StorageKit", *, but: tuple[int, ...] = ()) -> None:
    """Remove the producer snapshots of what `write` wrote, but those at these offsets."""
    for offset in {6, 12, 18}.difference(but):
        kit.disk.remove(kit.path(f"{offset:020d}.snapshot"))


def reopen(kit: "StorageKit") -> PartitionReport:
    directory = kit.run(kit.open())
    (report,) = directory.report.partitions
    if report.verdict is Verdict.QUARANTINED:
        assert kit.orders not in directory.logs
        assert directory.quarantined[kit.orders] == report.reason
    else:
        log = directory.logs[kit.orders]
        assert log.durable_end_offset == log.end_offset == report.end_offset
        *older, newest = log._state.segments
        assert [one.sealed for one in older] == [True] * len(older)
        assert newest.sealed is False
        # How old they are is not known: it counts from the start.
        assert {one.created_ms for one in log._state.segments} == {kit.clock.now_ms()}
        data = b"".join(segment.log.read(0, segment.size_bytes) for segment in log._state.segments)
        offsets = [header.base_offset for _, header in iter_batches(data)]
        assert offsets == list(range(0, log.end_offset, 2))
    return report


def test_nothing_is_lost_by_a_kill(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """What was not synced is in the page cache still."""
    kit.run(write(kit, make_batch, durable=18))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.INTACT, 20)
    assert (report.recovery_point, report.high_watermark) == (14, 12)


def test_records_of_an_epoch_that_was_not_saved_are_cut(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Nobody was told of them: the epoch is saved before its first acknowledgement."""
    kit.run(write(kit, make_batch, durable=0))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 16)
    assert "epoch" in report.reason


@pytest.mark.parametrize("base_offset", [0, 18])
def test_after_a_clean_shutdown_nothing_is_scanned(
    kit: "StorageKit", make_batch: "MakeBatch", base_offset: int
) -> None:
    async def scenario() -> LogDirectory:
        directory = await write(kit, make_batch)
        await directory.close({kit.orders: 20}, broker_epoch=5)
        kit.disk.release_locks()
        # A bit that only a scan could find wrong.
        kit.disk.flip_bit(kit.path(f"{base_offset:020d}.log"), 70, 3)
        return await kit.open()

    directory = kit.run(scenario())
    assert directory.report.clean
    assert directory.report.broker_epoch == 5
    assert directory.report.partitions[0].verdict is Verdict.INTACT
    assert ".kafka_cleanshutdown" not in kit.disk.names("")


def test_the_clean_mark_is_gone_before_anything_is_written(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def scenario() -> None:
        directory = await write(kit, make_batch)
        await directory.close({}, 5)
        log = await kit.reopened()
        log.append_as_leader(make_batch([b"x"]), 9, NOW)

    for seed in range(8):
        other = type(kit)(type(kit.disk)(), kit.clock, SMALL)
        original, kit.disk = kit.disk, other.disk
        kit.run(scenario())
        kit.cut_power(seed)
        assert not kit.run(kit.open()).report.clean
        kit.disk = original


@pytest.mark.parametrize("cut_bytes", [1, 10, 60, BATCH_BYTES - 1])
def test_a_torn_tail_is_cut_and_reported(
    kit: "StorageKit", make_batch: "MakeBatch", cut_bytes: int
) -> None:
    kit.run(write(kit, make_batch))
    content = kit.disk.content(kit.path(f"{LAST}.log"))
    del content[-cut_bytes:]
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 18)
    assert report.cut_bytes == BATCH_BYTES - cut_bytes
    assert report.reason.startswith(f"{LAST}.log at byte 0: ")


def test_zeros_at_the_end_are_cut(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """What a file system leaves that wrote the size but not the bytes."""
    kit.run(write(kit, make_batch))
    kit.disk.content(kit.path(f"{LAST}.log")).extend(bytes(4096))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset, report.cut_bytes) == (Verdict.TAIL_CUT, 20, 4096)


@pytest.mark.parametrize("byte", [0, 7, 9, 13, 16, 18, 25, 45, 60, 61, 76])
def test_a_flipped_bit_above_the_recovery_point_cuts_from_its_batch(
    kit: "StorageKit", make_batch: "MakeBatch", byte: int
) -> None:
    """The recovery point is 14; the batch at 16 is the third of its segment."""
    kit.run(write(kit, make_batch))
    kit.disk.flip_bit(kit.path(f"{12:020d}.log"), 2 * BATCH_BYTES + byte, 6)
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 16)
    assert report.cut_bytes == 2 * BATCH_BYTES
    assert f"{12:020d}.log at byte {2 * BATCH_BYTES}" in report.reason


@pytest.mark.parametrize("byte", [0, 7, 9, 13, 16, 18, 25, 45, 60, 61, 76])
def test_a_flipped_bit_below_the_recovery_point_quarantines(
    kit: "StorageKit", make_batch: "MakeBatch", byte: int
) -> None:
    """Also in base offset and epoch, which the checksum does not cover."""
    kit.run(write(kit, make_batch))
    path = kit.path(f"{12:020d}.log")
    kit.disk.flip_bit(path, byte, 6)
    before = {name: bytes(kit.disk.content(kit.path(name))) for name in kit.disk.names("orders-0")}
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert f"{12:020d}.log at byte 0" in report.reason
    assert "recovery point 14" in report.reason
    # The records stay as they are, for whoever looks into it.
    assert {
        name: bytes(kit.disk.content(kit.path(name))) for name in before if name.endswith(".log")
    } == {name: data for name, data in before.items() if name.endswith(".log")}


@pytest.mark.parametrize("size_bytes", [0, 1, BATCH_BYTES, BATCH_BYTES + 30, 2 * BATCH_BYTES])
def test_a_shortened_segment_below_the_recovery_point_quarantines(
    kit: "StorageKit", make_batch: "MakeBatch", size_bytes: int
) -> None:
    kit.run(write(kit, make_batch))
    del kit.disk.content(kit.path(f"{SECOND}.log"))[size_bytes:]
    kit.kill()
    assert reopen(kit).verdict is Verdict.QUARANTINED
    kit.kill()
    (past,) = kit.run(kit.open()).damage_history
    missing = int(SECOND) + size_bytes // BATCH_BYTES * 2
    assert (past.file, past.offset) == (kit.path(f"{SECOND}.log"), missing)


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_a_start_finds_is_reported_with_its_place(
    kit: "StorageKit", make_batch: "MakeBatch", *, is_cut: bool
) -> None:
    kit.run(write(kit, make_batch))
    path = kit.path(f"{12:020d}.log")
    if is_cut:
        del kit.disk.content(path)[30:]
    else:
        kit.disk.flip_bit(path, 70, 3)
    kit.kill()
    (past,) = kit.run(kit.open()).damage_history
    assert (past.partition, past.topic_id) == (kit.orders, kit.topic_id)
    assert (past.file, past.offset) == (path, 12)
    assert (past.is_cut, past.repaired_ms) == (is_cut, None)


@pytest.mark.parametrize("base", [0, 6, 12])
def test_a_missing_segment_below_the_recovery_point_quarantines(
    kit: "StorageKit", make_batch: "MakeBatch", base: int
) -> None:
    kit.run(write(kit, make_batch))
    kit.disk.remove(kit.path(f"{base:020d}.log"))
    kit.kill()
    if base == 0:
        # Only a durable log start can tell a lost segment from an expired one.
        set_log_start(kit, 0)
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    if base == 0:
        assert report.reason == (
            "the segment of log start 0 is missing, the log was durable up to 14"
        )


def set_log_start(kit: "StorageKit", offset: int) -> None:
    file = kit.disk.open("log-start-offset-checkpoint", create=True)
    file.truncate(0)
    file.append(b"0\n1\norders 0 %d\n" % offset)


def stems(kit: "StorageKit") -> set[str]:
    """Of the files that belong to segments."""
    names = (name.partition(".")[0] for name in kit.disk.names("orders-0"))
    return {stem for stem in names if stem.isdigit()}


def test_where_nothing_was_durable_a_missing_segment_takes_the_others_along(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch, checkpointed=0))
    kit.disk.remove(kit.path(f"{FIRST}.log"))
    set_log_start(kit, 0)
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 0)
    assert report.cut_bytes == 7 * BATCH_BYTES
    assert report.reason == "the segment of the log start offset is missing"
    assert stems(kit) == {FIRST}


def test_a_log_without_any_segment_begins_at_its_log_start(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Where it was durable up to there and no further."""
    kit.run(write(kit, make_batch, checkpointed=18))
    for name in kit.disk.names("orders-0"):
        if name.endswith(".log"):
            kit.disk.remove(kit.path(name))
    set_log_start(kit, 18)
    kit.kill()
    directory = kit.run(kit.open())
    (report,) = directory.report.partitions
    assert (report.verdict, report.log_start_offset, report.end_offset) == (Verdict.INTACT, 18, 18)
    logs = [name for name in kit.disk.names("orders-0") if name.endswith(".log")]
    assert logs == [f"{LAST}.log"]


@pytest.mark.parametrize(
    ("log_start", "bases"), [(4, (0, 6, 12, 18)), (6, (6, 12, 18)), (13, (12, 18)), (18, (18,))]
)
def test_a_deletion_that_a_crash_interrupted_is_finished(
    kit: "StorageKit", make_batch: "MakeBatch", log_start: int, bases: tuple[int, ...]
) -> None:
    """The log start was raised before; it may be where a segment begins."""
    kit.run(write(kit, make_batch, checkpointed=18))
    set_log_start(kit, log_start)
    kit.kill()
    (report,) = kit.run(kit.open()).report.partitions
    assert (report.verdict, report.log_start_offset) == (Verdict.INTACT, log_start)
    assert report.end_offset == 20
    assert stems(kit) == {f"{base:020d}" for base in bases}


@pytest.mark.parametrize(
    ("snapshots", "bases"),
    [((), (0, 6, 12, 18)), ((6,), (6, 12, 18)), ((6, 12), (12, 18)), ((6, 12, 18), (18,))],
)
def test_segments_whose_producers_are_in_no_snapshot_stay(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    snapshots: tuple[int, ...],
    bases: tuple[int, ...],
) -> None:
    """All lie below the log start but the last one."""
    kit.run(write(kit, make_batch, checkpointed=18))
    remove_snapshots(kit, but=snapshots)
    set_log_start(kit, 19)
    kit.kill()
    directory = kit.run(kit.open())
    assert stems(kit) == {f"{base:020d}" for base in bases}
    assert directory.logs[kit.orders]._state.producers.get(5) is not None


def test_a_segment_whose_end_was_copied_to_the_next_one_stays_for_its_producers(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A start that copied its end to a new file was killed before it truncated the old one."""
    kit.run(write(kit, make_batch, checkpointed=18))
    remove_snapshots(kit)
    copied = bytes(kit.disk.content(kit.path(f"{SECOND}.log")))[:BATCH_BYTES]
    kit.disk.content(kit.path(f"{FIRST}.log")).extend(copied)
    set_log_start(kit, 19)
    kit.kill()
    directory = kit.run(kit.open())
    assert stems(kit) == {f"{base:020d}" for base in (0, 6, 12, 18)}
    assert directory.logs[kit.orders]._state.producers.get(5) is not None


def test_a_segment_stays_only_where_it_leads_up_to_the_next_one(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """What is missing below the log start does not count."""
    kit.run(write(kit, make_batch, checkpointed=18))
    remove_snapshots(kit)
    kit.disk.remove(kit.path(f"{SECOND}.log"))
    set_log_start(kit, 19)
    kit.kill()
    (report,) = kit.run(kit.open()).report.partitions
    assert (report.verdict, report.log_start_offset) == (Verdict.INTACT, 19)
    assert stems(kit) == {f"{base:020d}" for base in (12, 18)}


def test_a_segment_whose_index_is_whole_must_lead_up_to_the_next_one(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    for suffix in ("index", "timeindex"):
        del kit.disk.content(kit.path(f"{SECOND}.{suffix}"))[:]
    del kit.disk.content(kit.path(f"{SECOND}.log"))[-BATCH_BYTES:]
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    place = f"orders-0/{SECOND}.log at byte {2 * BATCH_BYTES}"
    assert report.reason == f"{place}: ends at 10, the next segment begins at 12"


@pytest.mark.parametrize(
    ("log_start", "verdict", "reason"),
    [(20, Verdict.INTACT, ""), (30, Verdict.TAIL_CUT, "the segment is below the log start offset")],
)
def test_what_lies_wholly_below_the_log_start_goes(
    kit: "StorageKit", make_batch: "MakeBatch", log_start: int, verdict: Verdict, reason: str
) -> None:
    kit.run(write(kit, make_batch))
    set_log_start(kit, log_start)
    kit.kill()

    async def use() -> None:
        directory = await kit.open()
        (report,) = directory.report.partitions
        assert (report.verdict, report.reason) == (verdict, reason)
        assert (report.log_start_offset, report.end_offset) == (log_start, log_start)
        log = directory.logs[kit.orders]
        assert log._state.producers.end_offset == log_start
        assert (log._state.producers.get(5) is None) is (log_start == 30)
        log.append_as_leader(make_batch([b"x"]), 9, NOW)
        await log.flush()

    kit.run(use())
    kit.kill()
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (log_start, log_start + 1)


def test_a_missing_segment_above_the_recovery_point_cuts(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch, checkpointed=4))
    kit.disk.remove(kit.path(f"{12:020d}.log"))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 12)
    assert "the next segment begins at offset 18" in report.reason


@pytest.mark.parametrize(
    ("name", "damage", "clean"),
    [
        (name, damage, clean)
        for name in (f"{FIRST}.index", f"{SECOND}.timeindex", f"{LAST}.index")
        for damage in ("missing", "odd size", "empty", "garbage")
        for clean in (False, True)
        # After a clean shutdown a finished segment's index is believed, as in Kafka.
        if not clean or name.startswith(LAST) or damage in {"missing", "odd size"}
    ],
)
def test_indexes_are_rebuilt(
    kit: "StorageKit", make_batch: "MakeBatch", name: str, damage: str, clean: bool
) -> None:
    async def scenario() -> None:
        directory = await write(kit, make_batch)
        if clean:
            await directory.close({}, 1)

    kit.run(scenario())
    if not kit.disk.exists(kit.path(name)):
        kit.disk.open(kit.path(name), create=True)
    content = kit.disk.content(kit.path(name))
    match damage:
        case "missing":
            kit.disk.remove(kit.path(name))
        case "empty":
            content.clear()
        case "odd size":
            content.extend(b"x")
        case _:
            content[:] = b"\x7f" * len(content)
    kit.kill()
    assert reopen(kit).verdict is Verdict.INTACT
    kit.kill()
    log = kit.run(kit.open()).logs[kit.orders]
    for number in range(10):
        found = log.offset_for_timestamp(NOW + number, 20)
        assert found is not None
        assert found.offset == 2 * number
        assert log.read(2 * number + 1, 1, 20).read()[:8] == (2 * number).to_bytes(8, "big")


@pytest.mark.parametrize("clean", [True, False])
def test_rebuilt_indexes_survive_a_power_cut(
    kit: "StorageKit", make_batch: "MakeBatch", clean: bool
) -> None:
    """Half of one would have reads take a whole segment for damaged."""

    async def begin() -> None:
        kit.config = LogConfig(index_interval_bytes=1)
        directory, log = await kit.new_log()
        for _ in range(300):
            log.append_as_leader(make_batch([b"a", b"b"]), 0, NOW)
        log.roll(NOW)
        log.append_as_leader(make_batch([b"a"]), 0, NOW)
        await log.flush()
        await directory.checkpoint({})
        if clean:
            await directory.close({}, broker_epoch=1)

    async def reads() -> None:
        log = await kit.reopened()
        for offset in range(0, 600, 30):
            assert log.read(offset, 1, 600).next_offset == offset + 2

    kit.run(begin())
    kit.disk.remove(kit.path(f"{0:020d}.index"))
    kit.kill()
    kit.run(kit.open())
    started = kit.disk
    for seed in range(60):
        kit.disk = started.after_power_cut(seed)
        kit.run(reads())


@pytest.mark.parametrize("damage", ["missing", "garbage"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_lost_epoch_history_is_learned_from_the_batches(
    kit: "StorageKit", make_batch: "MakeBatch", damage: str, clean: bool
) -> None:
    async def scenario() -> None:
        directory = await write(kit, make_batch)
        if clean:
            await directory.close({}, 1)

    kit.run(scenario())
    path = kit.path("leader-epoch-checkpoint")
    kit.disk.content(path)[:] = b"0\n1\n"
    if damage == "missing":
        kit.disk.remove(path)
    for _ in range(2):
        kit.kill()
        log = kit.run(kit.open()).logs[kit.orders]
        assert log._state.epochs.entries == ((0, 0), (1, 8), (2, 16))


def test_a_batch_that_cannot_be_read_is_damage_after_a_clean_shutdown_too(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Nothing is scanned there but for the epochs, when their history is lost."""
    directory = kit.run(write(kit, make_batch))
    kit.run(directory.close({}, 1))
    kit.disk.remove(kit.path("leader-epoch-checkpoint"))
    kit.disk.content(kit.path(f"{FIRST}.log"))[16] = 7
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "magic 7" in report.reason


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_ends_below_what_was_durable_is_damaged(
    kit: "StorageKit", make_batch: "MakeBatch", clean: bool
) -> None:
    directory = kit.run(write(kit, make_batch, checkpointed=20))
    if clean:
        kit.run(directory.close({}, 1))
    kit.disk.content(kit.path(f"{LAST}.log")).clear()
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "was durable up to 20" in report.reason
    assert "ends at 18" in report.reason if clean else f"{LAST}.log at byte 0" in report.reason


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("bit", [0, 2, 5, 40])
def test_a_changed_offset_at_the_end_is_damage_after_a_clean_shutdown(
    kit: "StorageKit", make_batch: "MakeBatch", bit: int, is_compacted: bool
) -> None:
    """No checksum covers it. The log would seem longer than all others, and would lead."""

    async def scenario() -> None:
        directory = await write(kit, make_batch)
        if is_compacted:
            await directory.logs[kit.orders].compaction.allow_gaps(20)
        await directory.close({kit.orders: 20}, broker_epoch=1)

    kit.run(scenario())
    kit.disk.flip_bit(kit.path(f"{LAST}.log"), 7 - bit // 8, bit % 8)
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "but 18 was expected" in report.reason


async def shut_down_with_an_older_checkpoint(
    kit: "StorageKit", make_batch: "MakeBatch", *, checkpointed: int
) -> None:
    """The recovery point is a copy from before the last records, which are durable as well."""
    directory = await write(kit, make_batch, checkpointed=checkpointed)
    checkpoint = bytes(kit.disk.content("recovery-point-offset-checkpoint"))
    await directory.close({kit.orders: 20}, broker_epoch=1)
    kit.disk.content("recovery-point-offset-checkpoint")[:] = checkpoint


def test_records_above_the_end_of_a_clean_shutdown_are_checked(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """The checkpoint may be an older copy; the records need not be damaged."""
    kit.run(shut_down_with_an_older_checkpoint(kit, make_batch, checkpointed=14))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.INTACT, 20)


def test_a_fault_is_damage_after_a_clean_shutdown_wherever_it_is(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Nothing can have been written in part: so it is not cut, as after a crash."""
    kit.run(shut_down_with_an_older_checkpoint(kit, make_batch, checkpointed=14))
    path = kit.path(f"{12:020d}.log")
    kit.disk.flip_bit(path, 2 * BATCH_BYTES + 70, 0)
    stored = bytes(kit.disk.content(path))
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.cut_bytes) == (Verdict.QUARANTINED, 0)
    assert "the last shutdown was clean" in report.reason
    assert kit.disk.content(path) == stored
    assert LAST in stems(kit)


def test_a_missing_oldest_segment_is_damage_after_a_clean_shutdown(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Also where the checkpoint says nothing of the log, as an older copy may."""
    directory = kit.run(write(kit, make_batch))
    kit.run(directory.close({}, 1))
    kit.disk.remove("recovery-point-offset-checkpoint")
    kit.disk.remove(kit.path(f"{FIRST}.log"))
    set_log_start(kit, 0)
    kit.kill()
    assert reopen(kit).verdict is Verdict.QUARANTINED
    assert LAST in stems(kit)


def test_producers_of_a_last_segment_that_is_read_twice(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """First because its index is missing, then from the recovery point on. The snapshot that is
    made there has all producers, not only those of this segment."""

    def of(producer_id: int, sequence: int) -> memoryview:
        producer = Producer(producer_id=producer_id, epoch=0, base_sequence=sequence)
        return make_batch([b"x"], producer=producer)

    async def shut_down() -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(of(1, 0), 1, NOW)
        log.roll(NOW)
        log.append_as_leader(of(2, 0), 1, NOW)
        await log.flush()
        await directory.checkpoint({kit.orders: 2})
        checkpoint = bytes(kit.disk.content("recovery-point-offset-checkpoint"))
        log.append_as_leader(of(2, 1), 1, NOW)
        await directory.close({kit.orders: 3}, broker_epoch=1)
        kit.disk.content("recovery-point-offset-checkpoint")[:] = checkpoint

    async def afterwards() -> None:
        log = await kit.reopened()
        await log.truncate_to(2, NOW)
        assert log.append_as_leader(of(1, 0), 2, NOW).duplicate

    kit.run(shut_down())
    kit.disk.remove(kit.path(f"{1:020d}.index"))
    kit.kill()
    kit.run(afterwards())


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("checkpointed", [14, 20])
@pytest.mark.parametrize("without_index", [(LAST,), (SECOND,), (SECOND, LAST)])
def test_a_lost_epoch_history_is_learned_in_the_order_of_the_batches(
    kit: "StorageKit",
    make_batch: "MakeBatch",
    checkpointed: int,
    without_index: tuple[str, ...],
    *,
    clean: bool,
) -> None:
    """A segment without an index is read before the ones that precede it."""

    async def scenario() -> None:
        if clean:
            await shut_down_with_an_older_checkpoint(kit, make_batch, checkpointed=checkpointed)
        else:
            await write(kit, make_batch, checkpointed=checkpointed)

    kit.run(scenario())
    kit.disk.remove(kit.path("leader-epoch-checkpoint"))
    for stem in without_index:
        kit.disk.remove(kit.path(f"{stem}.index"))
    kit.kill()
    directory = kit.run(kit.open())
    assert kit.orders in directory.logs, directory.quarantined
    assert directory.logs[kit.orders]._state.epochs.entries == ((0, 0), (1, 8), (2, 16))


@pytest.mark.parametrize("clean", [False, True])
def test_an_empty_log_is_whole_and_keeps_its_last_epoch(kit: "StorageKit", clean: bool) -> None:
    """Somebody may have led here without writing anything."""

    async def lead() -> None:
        directory, log = await kit.new_log()
        log.begin_epoch(4)
        await log.flush()
        if clean:
            await directory.close({}, 1)

    kit.run(lead())
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset, report.cut_bytes) == (Verdict.INTACT, 0, 0)
    kit.kill()
    assert kit.run(kit.reopened())._state.epochs.entries == ((4, 0),)


def test_an_epoch_that_wrote_nothing_after_others_is_forgotten(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def lead() -> None:
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"]), 1, NOW)
        log.begin_epoch(3)
        await log.flush()

    kit.run(lead())
    kit.kill()
    assert kit.run(kit.reopened())._state.epochs.entries == ((1, 0),)


def test_a_sealed_segment_that_does_not_lead_up_to_the_next_one_is_damaged(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    directory = kit.run(write(kit, make_batch))
    kit.run(directory.close({}, 1))
    del kit.disk.content(kit.path(f"{SECOND}.log"))[2 * BATCH_BYTES :]
    kit.disk.remove(kit.path(f"{SECOND}.index"))
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert report.reason.endswith("ends at 10, the next segment begins at 12")


def test_a_fault_that_is_found_when_an_index_is_rebuilt_is_named(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    directory = kit.run(write(kit, make_batch))
    kit.run(directory.close({}, 1))
    kit.disk.flip_bit(kit.path(f"{SECOND}.log"), 70, 3)
    kit.disk.remove(kit.path(f"{SECOND}.index"))
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "checksum" in report.reason.lower() or "crc" in report.reason.lower()


@pytest.mark.parametrize(("last_offset_delta", "record_count"), [(1, 3), (-1, 0)])
def test_a_batch_with_more_records_than_offsets_is_none(
    kit: "StorageKit", make_batch: "MakeBatch", last_offset_delta: int, record_count: int
) -> None:
    """Though its checksum is right."""
    kit.run(write(kit, make_batch))
    batch = bytearray(make_batch([b"10", b""], timestamp_ms=NOW))
    set_place(memoryview(batch), 20, len(batch) - 12, 2)
    struct.pack_into(">i", batch, 23, last_offset_delta)
    struct.pack_into(">i", batch, 57, record_count)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    kit.disk.content(kit.path(f"{LAST}.log")).extend(batch)
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 20)
    assert f"{record_count} records for {last_offset_delta + 1} offsets" in report.reason


def test_the_epoch_of_the_very_record_at_the_log_start_is_checked(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    set_log_start(kit, 13)
    kit.disk.content(kit.path("leader-epoch-checkpoint"))[:] = b"0\n3\n0 0\n1 14\n2 16\n"
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "offset 13 has epoch 1, but the epoch history has 0" in report.reason


def steps(kit: "StorageKit", *, clean: bool, log_start_offset: int | None = None) -> list[int]:
    """What a recovery says, step by step, of how much it has read."""
    source = LogSource(
        disk=kit.disk,
        directory=kit.orders.directory,
        config=kit.config,
        now_ms=NOW,
        clean=clean,
        log_start_offset=log_start_offset,
        recovery_point=0,
    )
    return list(LogRecovery(source).run())


def test_every_byte_that_was_read_is_reported_once(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def fill() -> int:
        kit.config = LogConfig()
        _, log = await kit.new_log()
        batch = bytes(make_batch([b"x" * 500_000]))
        for _ in range(7):
            log.append_as_leader(memoryview(batch), 0, NOW)
        await log.flush()
        return len(batch)

    batch_bytes = kit.run(fill())
    kit.kill()
    assert steps(kit, clean=False) == [3 * batch_bytes, 3 * batch_bytes, batch_bytes]
    # That made its index anew, which nobody has written out; then the epochs are learned.
    kit.disk.remove(kit.path("leader-epoch-checkpoint"))
    once = [3 * batch_bytes, 3 * batch_bytes]
    assert steps(kit, clean=True) == [*once, batch_bytes, *once]


def test_other_tasks_run_after_each_mebibyte(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    half = 2**19

    async def fill() -> None:
        kit.config = LogConfig()
        _, log = await kit.new_log()
        overhead_bytes = len(make_batch([b"x" * 500_000])) - 500_000
        for _ in range(5):
            log.append_as_leader(make_batch([b"x" * (half - overhead_bytes)]), 0, NOW)
        await log.flush()
        assert log.size_bytes == 5 * half

    kit.run(fill())
    kit.kill()
    assert steps(kit, clean=False) == [2 * half, 2 * half, half]
    kit.disk.remove(kit.path("leader-epoch-checkpoint"))
    assert steps(kit, clean=True) == [2 * half, 2 * half, half, 2 * half, 2 * half]


def test_bytes_before_a_split_that_was_not_finished_are_reported(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """What follows there was written again into the next segment, and is read there."""

    async def fill() -> None:
        kit.config = LogConfig()
        _, log = await kit.new_log()
        for number in range(4):
            log.append_as_leader(make_batch([b"%d" % number]), 0, NOW)
            if number == 1:
                log.roll(NOW)
        await log.flush()
        first, second = log._state.segments
        first.log.append(second.log.read(0, second.size_bytes))

    kit.run(fill())
    kit.kill()
    size_bytes = len(make_batch([b"0"]))
    assert steps(kit, clean=False) == [2 * size_bytes, 2 * size_bytes]


@pytest.mark.parametrize("is_first_missing", [False, True])
def test_a_cut_is_a_step_in_which_nothing_was_read(
    kit: "StorageKit", make_batch: "MakeBatch", *, is_first_missing: bool
) -> None:
    kit.run(write(kit, make_batch, checkpointed=0))
    if is_first_missing:
        kit.disk.remove(kit.path(f"{FIRST}.log"))
    else:
        kit.disk.content(kit.path(f"{FIRST}.log"))[16] = 7
    kit.kill()

    assert set(steps(kit, clean=False, log_start_offset=0)) == {0}


def test_the_times_of_a_split_segment_are_found_after_a_clean_shutdown(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Neither half of it is read again."""
    kit.run(write(kit, make_batch, checkpointed=2))
    kit.kill()

    async def start_and_stop() -> None:
        directory = await kit.open()
        assert directory.logs[kit.orders].segment_count == 5
        await directory.close({}, 1)

    kit.run(start_and_stop())
    log = kit.run(kit.reopened())
    for number in range(10):
        found = log.offset_for_timestamp(NOW + number, 20)
        assert found is not None
        assert found.offset == 2 * number


def test_an_epoch_that_contradicts_the_history_quarantines(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    kit.disk.content(kit.path("leader-epoch-checkpoint"))[:] = b"0\n2\n0 0\n1 14\n"
    kit.kill()
    report = reopen(kit)
    assert report.verdict is Verdict.QUARANTINED
    assert "epoch" in report.reason


def test_a_history_that_the_first_batch_refutes_is_not_kept(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """No leader's records could follow an epoch that never was, nor may it win an election."""
    kit.run(write(kit, make_batch, checkpointed=0))
    kit.disk.content(kit.path("leader-epoch-checkpoint"))[:] = b"0\n1\n2 0\n"
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 0)
    kit.kill()
    log = kit.run(kit.open()).logs[kit.orders]
    assert log._state.epochs.entries == ()


def test_the_last_epoch_of_a_log_whose_new_epoch_was_not_saved_is_kept(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """That the history says less refutes nothing."""
    kit.run(write(kit, make_batch, checkpointed=0))
    kit.disk.content(kit.path("leader-epoch-checkpoint"))[:] = b"0\n1\n0 0\n"
    kit.disk.content(kit.path(f"{FIRST}.log"))[12:16] = (1).to_bytes(4, "big")
    kit.kill()
    report = reopen(kit)
    assert (report.verdict, report.end_offset) == (Verdict.TAIL_CUT, 0)
    kit.kill()
    assert kit.run(kit.open()).logs[kit.orders].last_epoch == 0


@pytest.mark.parametrize("damage", ["missing", "garbage", "cut"])
def test_producers_come_back_without_their_snapshot(
    kit: "StorageKit", make_batch: "MakeBatch", damage: str
) -> None:
    kit.run(write(kit, make_batch))
    for base in (6, 12, 18):
        path = kit.path(f"{base:020d}.snapshot")
        content = kit.disk.content(path)
        match damage:
            case "missing":
                kit.disk.remove(path)
            case "garbage":
                content[8] ^= 1
            case _:
                del content[-5:]
    kit.kill()
    log = kit.run(kit.open()).logs[kit.orders]
    for number in range(5, 10):
        producer = Producer(producer_id=5, epoch=0, base_sequence=2 * number)
        again = make_batch([b"%02d" % number, b""], timestamp_ms=NOW + number, producer=producer)
        assert log.append_as_leader(again, 9, NOW).duplicate


def test_a_snapshot_above_the_recovery_point_is_not_believed(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """It may be of records that were cut off; later it would be below the recovery point."""
    kit.run(write(kit, make_batch))
    states = ProducerStates(16)
    for number, sequence in enumerate((0, 998)):
        producer = Producer(producer_id=5, epoch=0, base_sequence=sequence)
        batch = make_batch([b"", b""], producer=producer)
        states.record(read_header(batch), number * 2)
    path = kit.path(f"{16:020d}.snapshot")
    kit.run(kit.disk.replace(path, encode_snapshot(states, NOW)))

    async def use() -> None:
        directory = await kit.open()
        entry = directory.logs[kit.orders]._state.producers.get(5)
        assert entry is not None
        assert [batch.last_sequence for batch in entry.batches if batch.last_sequence > 19] == []
        assert entry.batches[-1].last_sequence == 19
        await directory.checkpoint({})

    for _ in range(2):
        kit.kill()
        kit.run(use())
        assert not kit.disk.exists(path)


def test_a_snapshot_in_the_middle_of_a_segment_is_none_of_where_it_begins(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """A clean shutdown leaves one at the log end. The next roll is far, and a kill may be near."""

    def of(producer_id: int) -> memoryview:
        producer = Producer(producer_id=producer_id, epoch=0, base_sequence=0)
        return make_batch([b"a", b"b"], producer=producer)

    async def before_shutdown() -> None:
        directory, log = await kit.new_log()
        for producer_id in (1, 2, 3):
            log.append_as_leader(of(producer_id), 0, NOW)
        await directory.close({}, broker_epoch=1)

    async def before_kill() -> None:
        log = await kit.reopened()
        log.append_as_leader(of(4), 0, NOW)
        await log.flush()

    async def afterwards() -> None:
        log = await kit.reopened()
        await log.truncate_to(4, NOW)
        again = [log.append_as_leader(of(producer_id), 1, NOW).duplicate for producer_id in (2, 3)]
        assert again == [True, False], "what was cut off is not stored"

    kit.run(before_shutdown())
    kit.kill()
    kit.run(before_kill())
    kit.kill()
    kit.run(afterwards())


def test_a_snapshot_that_is_there_is_not_written_again(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    kit.kill()
    replaced: list[str] = []
    kit.disk.stepping = lambda operation, path: (
        replaced.append(path) if operation == "replace" else None
    )
    kit.run(kit.open())
    snapshots = {path for path in replaced if path.endswith(".snapshot")}
    assert snapshots == {kit.path(f"{offset:020d}.snapshot") for offset in (14, 18)}


def test_an_index_that_was_finished_after_the_recovery_point_is_not_believed(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch"
) -> None:
    """The recovery point is the end of a segment whose index was never synced."""

    async def fill(kit: "StorageKit") -> None:
        directory, log = await kit.new_log()
        log.append_as_leader(make_batch([b"x"], timestamp_ms=NOW), 0, NOW)
        await log.flush()
        await directory.checkpoint({})
        log.roll(NOW)

    async def close(kit: "StorageKit") -> None:
        await (await kit.open()).close({}, 1)

    for seed in range(20):
        kit = kits()
        kit.run(fill(kit))
        kit.kill()
        kit.run(kit.open())
        kit.cut_power(seed)
        kit.run(close(kit))
        found = kit.run(kit.reopened()).offset_for_timestamp(NOW, 1)
        assert found is not None
        assert found.offset == 0


def test_with_a_damaged_checkpoint_nothing_is_cut(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    """Without a recovery point nobody can say what was durable."""
    kit.run(write(kit, make_batch))
    kit.disk.content("recovery-point-offset-checkpoint")[:] = b"0\n7\norders"
    kit.kill()
    assert reopen(kit).verdict is Verdict.INTACT
    kit.disk.content("recovery-point-offset-checkpoint")[:] = b"0\n7\norders"
    del kit.disk.content(kit.path(f"{LAST}.log"))[-1:]
    kit.kill()
    assert reopen(kit).verdict is Verdict.QUARANTINED


def test_a_damaged_replica_stays_damaged_over_a_clean_shutdown(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    async def close_and_open() -> LogDirectory:
        directory = await kit.open()
        assert kit.orders in directory.quarantined
        await directory.close({}, 1)
        kit.disk.release_locks()
        return await kit.open()

    kit.run(write(kit, make_batch))
    kit.disk.flip_bit(kit.path(f"{12:020d}.log"), 70, 0)
    kit.kill()
    assert kit.orders in kit.run(close_and_open()).quarantined


def test_leftovers_are_removed(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.run(write(kit, make_batch))
    leftovers = (
        f"{FIRST}.log.deleted",
        f"{99:020d}.index",
        f"{99:020d}.timeindex",
        "leader-epoch-checkpoint.tmp",
        f"{FIRST}.log.cleaned",
    )
    for name in leftovers:
        kit.disk.open(kit.path(name), create=True).append(b"x")
    kit.kill()
    assert reopen(kit).verdict is Verdict.INTACT
    assert not set(leftovers) & set(kit.disk.names("orders-0"))


def test_files_of_somebody_else_are_left_alone(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.run(write(kit, make_batch))
    copies = {f"{FIRST}.before.index", f"{FIRST}.2026.timeindex"}
    for name in copies:
        kit.disk.open(kit.path(name), create=True).append(b"x")
    kit.kill()
    assert reopen(kit).verdict is Verdict.INTACT
    assert copies < set(kit.disk.names("orders-0"))


@pytest.mark.parametrize("log_start", [0, 30])
def test_without_room_for_the_epochs_it_is_known_all_the_same_what_is_durable(
    kit: "StorageKit", make_batch: "MakeBatch", log_start: int
) -> None:
    """After a clean shutdown all there is; where all lay below the log start, nothing."""

    async def begin() -> None:
        directory = await write(kit, make_batch)
        log = directory.logs[kit.orders]
        log.begin_epoch(8)  # it writes nothing, so the next start forgets it
        await log.flush()
        if log_start:
            set_log_start(kit, log_start)
        else:
            await directory.close({}, broker_epoch=1)

    async def use() -> None:
        kit.disk.fail_next("replace", errno.ENOSPC, "leader-epoch-checkpoint")
        directory = await kit.open()
        log = directory.logs[kit.orders]
        assert (log.durable_end_offset, log.end_offset) == (log_start or 20,) * 2
        await directory.checkpoint({})

    kit.run(begin())
    kit.kill()
    kit.run(use())


def test_an_unfinished_compaction_is_not_guessed_at(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.run(write(kit, make_batch))
    kit.disk.open(kit.path(f"{FIRST}.log.swap"), create=True)
    kit.kill()
    assert reopen(kit).verdict is Verdict.QUARANTINED


@pytest.mark.parametrize(("log_start", "is_whole"), [(8, False), (11, False), (12, True)])
def test_an_unfinished_compaction_below_the_log_start_is_no_damage(
    kit: "StorageKit", make_batch: "MakeBatch", log_start: int, is_whole: bool
) -> None:
    """The segment after it may have been deleted, the new file not yet."""
    kit.run(write(kit, make_batch))
    kit.disk.rename(kit.path(f"{FIRST}.log"), kit.path(f"{FIRST}.log.swap"))
    for suffix in ("log", "index", "timeindex"):
        kit.disk.remove(kit.path(f"{SECOND}.{suffix}"))
    set_log_start(kit, log_start)
    kit.kill()
    directory = kit.run(kit.open())
    (report,) = directory.report.partitions
    assert (report.verdict is Verdict.INTACT) == is_whole
    if is_whole:
        assert (report.log_start_offset, report.end_offset) == (12, 20)
        assert not [name for name in kit.disk.names("orders-0") if name.endswith(".swap")]


def test_the_loop_is_not_held(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """A scan gives way after every MiB."""

    async def scenario() -> int:
        kit.config = LogConfig()
        _, log = await kit.new_log()
        batch = bytes(make_batch([b"x" * 500_000]))
        for _ in range(20):
            log.append_as_leader(memoryview(batch), 0, NOW)
        kit.kill()
        turns = 0

        async def count_slices() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_slices())
        assert (await kit.open()).logs[kit.orders].end_offset == 20
        counting.cancel()
        return turns

    assert kit.run(scenario()) >= 6


def test_power_cut_at_every_step_of_a_recovery(
    kits: "Callable[[], StorageKit]", make_batch: "MakeBatch", power_cut: type[Exception]
) -> None:
    def crashed() -> "StorageKit":
        kit = kits()
        kit.run(write(kit, make_batch, durable=12))
        kit.cut_power(7)
        return kit

    steps = 0
    while True:
        steps += 1
        kit = crashed()
        kit.disk.cut_power_at(steps)
        try:
            kit.run(kit.open())
        except power_cut:
            kit.cut_power(steps)
            assert reopen(kit).end_offset >= 14
        else:
            break
    assert steps > 5
