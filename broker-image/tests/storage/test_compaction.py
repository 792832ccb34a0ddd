"""Compaction of a log: which records stay, where, and for how long."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.compaction.key_map import ENTRY_BYTES
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DamagedLogError, DirectoryOfflineError
from chiplog_broker.storage.log import ListOffset, PartitionLog
from chiplog_broker.storage.producers import RETAINED_BATCHES
from chiplog_wire.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    check_crc,
    iter_batches,
    seal,
)
from chiplog_wire.records.errors import InvalidRecordError
from chiplog_wire.records.reader import Record, read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

COMPACTED = LogConfig(
    segment_bytes=2_000,
    index_interval_bytes=100,
    deletes=False,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=50,
)
NO_LIMIT = float("inf")
SETTINGS = CleanerSettings(
    dedupe_buffer_bytes=1_000 * ENTRY_BYTES, io_max_bytes_per_second=NO_LIMIT
)


@dataclass
class Bench:
    """A compacted log and what is done to it."""

    kit: "StorageKit"
    directory: LogDirectory
    log: PartitionLog

    @property
    def now_ms(self) -> int:
        return self.kit.clock.now_ms()

    def append(self, *records: tuple[bytes | None, bytes | None], **options: object) -> int:
        """One batch; its base offset."""
        return self.append_batch(keyed(records, self.now_ms, **options))

    def append_batch(self, batch: memoryview) -> int:
        return self.log.append_as_leader(batch, 0, self.now_ms).base_offset

    async def clean(self, max_keys: int = 1_000) -> bool:
        """One pass over all but what is appended from now on."""
        self.log.roll(self.now_ms)
        await self.log.flush()
        cleaner = LogCleaner(self.directory, self.kit.clock)
        settings = CleanerSettings(
            dedupe_buffer_bytes=max_keys * ENTRY_BYTES, io_max_bytes_per_second=NO_LIMIT
        )
        return await cleaner.clean_dirtiest({self.log.partition: self.log.end_offset}, settings)

    def values(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {record.offset: (record.key, record.value) for record in self.records()}

    def records(self) -> list[Record]:
        return [
            record for batch, header in batches(self.log) for record in read_records(batch, header)
        ]

    def offset(self, timestamp_ms: int) -> int | None:
        found = self.log.offset_for_timestamp(timestamp_ms, self.log.end_offset)
        return None if found is None else found.offset


async def bench(kit: "StorageKit", config: LogConfig = COMPACTED) -> Bench:
    kit.config = config
    return Bench(kit, *await kit.new_log())


def keyed(
    records: Iterable[tuple[bytes | None, bytes | None]], timestamp_ms: int, **options: object
) -> memoryview:
    made = [NewRecord(value, key, timestamp_ms) for key, value in records]
    return memoryview(build_batch(made, BatchOptions(**options)))  # type: ignore[arg-type]


def batches(log: PartitionLog) -> list[tuple[memoryview, BatchHeader]]:
    """As a reader gets them who goes on where the last answer ended."""
    found = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = memoryview(log.read(offset, 700, log.end_offset).read())
        assert data, offset
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            check_crc(batch, header)
            assert header.last_offset >= offset
            found.append((batch, header))
            offset = header.last_offset + 1
    return found


def test_a_pass_names_the_batch_that_is_damaged(kit: "StorageKit") -> None:
    """By its own offset, not by that of its segment."""

    async def scenario() -> None:
        one = await bench(kit)
        for number in range(6):
            one.append((b"a", b"%d" % number))
        await one.log.flush()
        path = kit.path(f"{0:020d}.log")
        size_bytes = len(kit.disk.content(path)) // 6
        kit.disk.flip_bit(path, 4 * size_bytes + HEADER_BYTES, 3)
        await one.clean()
        damage = one.log.damage
        assert damage is not None
        assert (damage.file, damage.offset, damage.is_cut) == (path, 4, False)

    kit.run(scenario())


@pytest.mark.parametrize("batch", range(6))
@pytest.mark.parametrize(("byte", "bit"), [(0, 7), (0, 6), (4, 0), (7, 3), (7, 0), (15, 0)])
def test_what_lies_outside_of_the_checksum_is_not_copied_unseen(
    kit: "StorageKit", batch: int, byte: int, bit: int
) -> None:
    """Base offset and leader epoch; what shows only at the batch after it, shows there."""

    async def scenario() -> None:
        one = await bench(kit)
        for number in range(6):
            one.append((b"%d" % (number % 2), b"%d" % number))
        await one.log.flush()
        path = kit.path(f"{0:020d}.log")
        content = kit.disk.content(path)
        size_bytes = len(content) // 6
        kit.disk.flip_bit(path, batch * size_bytes + byte, bit)
        stored = bytes(content)
        await one.clean()
        damage = one.log.damage
        assert damage is not None
        assert damage.offset is not None
        assert (damage.file, damage.is_cut) == (path, False)
        assert batch <= damage.offset <= batch + 2
        assert bytes(kit.disk.content(path)) == stored

    kit.run(scenario())


def test_a_log_for_which_there_is_no_room_counts_until_it_was_compacted(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for number in range(6):
            one.append((b"a", b"%d" % number))
        one.log.roll(one.now_ms)
        await one.log.flush()
        cleaner = LogCleaner(one.directory, kit.clock)
        ends = {one.log.partition: one.log.end_offset}
        kit.disk.fail_next("append", errno.ENOSPC, ".cleaned")
        assert not await cleaner.clean_dirtiest(ends, SETTINGS)
        assert cleaner.stats.uncleanable == 1
        assert one.log.damage is None
        assert await cleaner.clean_dirtiest(ends, SETTINGS)
        assert cleaner.stats.uncleanable == 0
        assert list(one.values()) == [5]

    kit.run(scenario())


def test_a_copy_that_is_not_durable_for_want_of_room_is_no_full_disk(kit: "StorageKit") -> None:
    """What the device has dropped of other files, nobody knows."""

    async def scenario() -> None:
        one = await bench(kit)
        for number in range(6):
            one.append((b"a", b"%d" % number))
        one.log.roll(one.now_ms)
        await one.log.flush()
        cleaner = LogCleaner(one.directory, kit.clock)
        kit.disk.fail_next("sync", errno.ENOSPC, ".cleaned")
        with pytest.raises(DirectoryOfflineError):
            await cleaner.clean_dirtiest({one.log.partition: one.log.end_offset}, SETTINGS)
        assert one.directory.health.failure is not None

    kit.run(scenario())


def test_the_last_value_of_each_key_stays_where_it_was(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.append((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
        one.append((b"c", b"1"))
        one.append((b"b", b"2"))
        assert await one.clean()
        assert one.values() == {2: (b"a", b"2"), 3: (b"c", b"1"), 4: (b"b", b"2")}
        one.append((b"c", b"2"))
        assert await one.clean()
        assert one.values() == {2: (b"a", b"2"), 4: (b"b", b"2"), 5: (b"c", b"2")}
        assert one.log.end_offset == 6

    kit.run(scenario())


def test_the_newest_segment_and_what_is_not_safe_stay_as_they_are(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.append((b"a", b"1"))
        assert await one.clean()
        one.append((b"a", b"2"))
        one.append((b"a", b"3"))
        assert not await LogCleaner(one.directory, kit.clock).clean_dirtiest(
            {kit.orders: 3}, CleanerSettings(dedupe_buffer_bytes=10**6, io_max_bytes_per_second=1e9)
        )
        one.log.roll(one.now_ms)
        await one.log.flush()
        cleaner = LogCleaner(one.directory, kit.clock)
        settings = CleanerSettings(dedupe_buffer_bytes=10**6, io_max_bytes_per_second=1e9)
        assert not await cleaner.clean_dirtiest({kit.orders: 2}, settings)
        assert len(one.values()) == 3
        assert await cleaner.clean_dirtiest({kit.orders: 3}, settings)
        assert one.values() == {2: (b"a", b"3")}

    kit.run(scenario())


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_codec_and_its_place(kit: "StorageKit", codec: Codec) -> None:
    async def scenario() -> None:
        one = await bench(kit)
        keys = [b"%d" % (n % 7) for n in range(20)]
        one.append(*((key, b"v" * 50) for key in keys), codec=codec)
        one.append((b"other", b"1"))
        before = batches(one.log)[0][1]
        assert await one.clean()
        after = batches(one.log)[0][1]
        assert after.codec is codec
        assert (after.base_offset, after.last_offset) == (0, 19)
        assert after.record_count == 7
        assert after.leader_epoch == before.leader_epoch
        assert sorted(one.values()) == [*range(13, 20), 20]

    kit.run(scenario())


def test_a_batch_that_loses_nothing_is_not_rewritten(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.append((b"a", b"1"), codec=Codec.GZIP)
        one.append((b"b", b"1"))
        one.append((b"b", b"2"))
        before = bytes(batches(one.log)[0][0])
        assert await one.clean()
        assert bytes(batches(one.log)[0][0]) == before

    kit.run(scenario())


def test_a_tombstone_stays_until_its_time_has_come(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.append((b"a", b"1"))
        one.append((b"x", b"0"), (b"a", None))
        assert await one.clean()
        assert one.values() == {1: (b"x", b"0"), 2: (b"a", None)}
        header = batches(one.log)[-1][1]
        horizon_ms = header.delete_horizon_ms
        assert horizon_ms is not None
        assert horizon_ms >= one.now_ms + 900
        times = [record.timestamp_ms for record in one.records()]
        assert times == [1_000_000, 1_000_000]
        kit.clock.time_ms = horizon_ms - 10
        one.append((b"b", b"1"))
        assert await one.clean()
        assert 2 in one.values()
        assert batches(one.log)[0][1].delete_horizon_ms == horizon_ms
        kit.clock.time_ms = horizon_ms
        one.append((b"b", b"2"))
        assert await one.clean()
        assert one.values() == {1: (b"x", b"0"), 4: (b"b", b"2")}

    kit.run(scenario())


def test_the_map_of_keys_is_bounded(kit: "StorageKit") -> None:
    """Each pass goes as far as its map holds the keys, and the next one goes on there."""

    async def scenario() -> None:
        one = await bench(kit)
        for n in range(30):
            one.append((b"%d" % (n % 10), b"%d" % n))
        cleaner_offsets = []
        while await one.clean(max_keys=4):
            cleaner_offsets.append(one.log.compaction.cleaner_offset)
            latest = dict(one.values().values())
            assert latest == {b"%d" % (n % 10): b"%d" % n for n in range(30)}
        assert cleaner_offsets[0] == 4
        assert cleaner_offsets == sorted(set(cleaner_offsets))
        assert cleaner_offsets[-1] == 30
        assert len(one.values()) == 10

    kit.run(scenario())


def test_the_last_batches_of_a_producer_stay_without_records(kit: "StorageKit") -> None:
    """As many as it may have in flight: any of them may come again."""

    async def scenario() -> None:
        one = await bench(kit)
        sent = []
        for number in range(RETAINED_BATCHES):
            producer = Producer(producer_id=7, epoch=2, base_sequence=2 * number)
            batch = bytes(keyed([(b"a", b"1"), (b"b", b"1")], one.now_ms, producer=producer))
            one.append_batch(memoryview(batch))
            sent.append(batch)
        one.append((b"b", b"2"))
        one.append((b"a", b"2"))
        assert await one.clean()
        assert sorted(one.values()) == [10, 11]
        kept = [header for _, header in batches(one.log)][:RETAINED_BATCHES]
        assert [header.base_sequence for header in kept] == [0, 2, 4, 6, 8]
        assert {(header.producer_id, header.record_count) for header in kept} == {(7, 0)}
        again = await restarted(one)
        for batch in sent:
            assert again.log.append_as_leader(memoryview(batch), 0, one.now_ms).duplicate
        following = Producer(producer_id=7, epoch=2, base_sequence=10)
        again.append((b"c", b"1"), producer=following)
        again.append((b"d", b"1"))
        assert await again.clean()
        first = next(h for _, h in batches(again.log) if h.producer_id == 7)
        assert first.base_sequence == 2

    kit.run(scenario())


async def restarted(one: Bench) -> Bench:
    """The log as a process finds it that has to derive the producers' states from the batches."""
    await one.directory.checkpoint({})
    for name in one.kit.disk.names(one.kit.orders.directory):
        if name.endswith(".snapshot"):
            one.kit.disk.remove(one.kit.path(name))
    one.kit.kill()
    directory = await one.kit.open()
    assert not directory.quarantined
    return Bench(one.kit, directory, directory.logs[one.kit.orders])


def test_segments_are_joined_and_lead_up_to_each_other(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for n in range(100):
            one.append((b"%d" % (n % 5), b"v" * 100))
        segments = one.log.segment_count
        assert segments > 5
        assert await one.clean()
        assert one.log.segment_count == segments + 1
        one.append((b"other", b"v"))
        assert await one.clean()
        assert one.log.segment_count == 2
        (cleaned, active) = list(one.log._state.segments)
        assert cleaned.end_offset == active.base_offset == 101
        assert sorted(one.values()) == [95, 96, 97, 98, 99, 100]
        kit.clock.time_ms += 60
        one.log.remove_expired_files(one.now_ms)
        logs = [name for name in kit.disk.names("orders-0") if ".log" in name]
        assert logs == [f"{0:020d}.log", f"{101:020d}.log"]

    kit.run(scenario())


def test_a_segment_of_which_nothing_is_left_keeps_its_end(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        one.append((b"a", b"1"))
        assert await one.clean()
        one.append((b"a", b"2"))
        assert await one.clean()
        assert one.values() == {1: (b"a", b"2")}
        for restart in (restarted, cleanly_restarted):
            one = await restart(one)
            assert one.values() == {1: (b"a", b"2")}
            assert one.log.end_offset == 2

    kit.run(scenario())


async def cleanly_restarted(one: Bench) -> Bench:
    await one.directory.close({}, 1)
    return Bench(one.kit, await one.kit.open_again(), await one.kit.reopened())


@pytest.mark.parametrize("batch", range(6))
def test_a_read_does_not_step_over_a_batch_that_says_it_lies_before(
    kit: "StorageKit", batch: int
) -> None:
    """Where gaps are allowed what comes next would do as well, for who asks for this one."""

    async def scenario() -> None:
        one = await bench(kit, replace(COMPACTED, index_interval_bytes=10_000))
        for number in range(6):
            one.append((b"%d" % number, b"value"))
        assert await one.clean()
        # What was appended a moment ago is found without a look.
        one = await cleanly_restarted(one)
        path = kit.path(f"{0:020d}.log")
        size_bytes = len(kit.disk.content(path)) // 6
        kit.disk.flip_bit(path, batch * size_bytes, 7)
        with pytest.raises(DamagedLogError):
            one.log.read(batch, 1_000, one.log.end_offset).read()

    kit.run(scenario())


def test_records_without_a_key_are_refused(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for codec in Codec:
            with pytest.raises(InvalidRecordError):
                one.append((b"a", b"1"), (None, b"2"), codec=codec)
        assert one.log.end_offset == 0

    kit.run(scenario())


def test_what_came_before_the_topic_was_compacted(kit: "StorageKit") -> None:
    """Records without a key go; what cannot be read stays as it is."""

    async def scenario() -> None:
        one = await bench(kit, replace(COMPACTED, compacts=False))
        one.append((None, b"1"), (b"a", b"1"))
        garbage = bytearray(keyed([(b"a", b"0"), (b"b", b"0")], one.now_ms, codec=Codec.ZSTD))
        garbage[61:] = bytes(len(garbage) - 61)
        seal_again(garbage)
        one.append_batch(memoryview(garbage))
        one.append((b"c", b"1"))
        one.log.configure(COMPACTED)
        assert await one.clean()
        found = batches(one.log)
        assert [header.base_offset for _, header in found] == [0, 2, 4]
        assert bytes(found[1][0][61:]) == bytes(garbage[61:])
        assert [record.offset for record in read_records(*found[0])] == [1]

    kit.run(scenario())


def seal_again(batch: bytearray) -> None:
    seal(memoryview(batch))


def test_times_are_found_across_gaps(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for n in range(40):
            kit.clock.time_ms += 10
            one.append((b"%d" % (n % 4), b"v"), (b"x%d" % n, b"v"))
        begin_ms = one.records()[0].timestamp_ms
        assert await one.clean()
        for step in range(40):
            timestamp_ms = begin_ms + 10 * step
            expected = next(r.offset for r in one.records() if r.timestamp_ms >= timestamp_ms)
            assert one.offset(timestamp_ms) == expected
        newest = max(one.records(), key=lambda record: record.timestamp_ms)
        assert one.offset(ListOffset.MAX_TIMESTAMP) == newest.offset

    kit.run(scenario())


def test_truncation_below_what_was_compacted(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for n in range(10):
            one.append((b"%d" % (n % 3), b"v"), (b"%d" % (n % 3), b"w"))
        one.append((b"end", b"1"))
        assert await one.clean()
        assert sorted(one.values()) == [15, 17, 19, 20]
        assert one.log.compaction.cleaner_offset == 21
        await one.log.truncate_to(13, one.now_ms)
        assert one.log.end_offset == 0
        assert one.log.compaction.cleaner_offset <= 13
        again = await restarted(one)
        assert again.log.end_offset == 0

    kit.run(scenario())


def test_a_follower_takes_batches_with_gaps(kit: "StorageKit") -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for n in range(50):
            one.append((b"%d" % (n % 3), b"v" * 100))
        assert await one.clean()
        one.append((b"z", b"1"))
        follower = await one.directory.create(
            kit.orders._replace(partition=1), kit.topic_id, COMPACTED
        )
        await follower.compaction.allow_gaps(one.log.gap_end_offset)
        while follower.end_offset < one.log.end_offset:
            data = one.log.read(follower.end_offset, 400, one.log.end_offset).read()
            follower.append_as_follower(memoryview(data), 0, one.now_ms)
        theirs = Bench(kit, one.directory, follower)
        assert theirs.values() == one.values()
        await follower.flush()
        await one.directory.checkpoint({})
        kit.kill()
        directory = await kit.open()
        assert not directory.quarantined
        assert Bench(kit, directory, directory.logs[follower.partition]).values() == one_values(
            kit, directory
        )

    def one_values(
        kit: "StorageKit", directory: LogDirectory
    ) -> dict[int, tuple[bytes | None, bytes | None]]:
        return Bench(kit, directory, directory.logs[kit.orders]).values()

    kit.run(scenario())


def test_compact_and_delete(kit: "StorageKit") -> None:
    async def scenario() -> None:
        config = replace(COMPACTED, deletes=True, retention_ms=10_000, segment_bytes=400)
        one = await bench(kit, config)
        for n in range(10):
            one.append((b"%d" % n, b"v" * 100))
        assert await one.clean()
        kit.clock.time_ms += 20_000
        one.append((b"new", b"v"))
        assert await one.log.enforce_retention(one.log.end_offset, one.now_ms) > 0
        assert one.log.log_start_offset == 10
        only = await bench_of(one, replace(config, deletes=False))
        kit.clock.time_ms += 20_000
        assert await only.log.enforce_retention(only.log.end_offset, one.now_ms) == 0

    async def bench_of(one: Bench, config: LogConfig) -> Bench:
        one.log.configure(config)
        return one

    kit.run(scenario())


@pytest.mark.parametrize("disturb", ["truncate", "delete", "close"])
def test_a_pass_is_given_up_where_its_log_changes(kit: "StorageKit", disturb: str) -> None:
    async def scenario() -> None:
        one = await bench(kit)
        for n in range(300):
            one.append((b"%d" % (n % 50), b"v" * 100))
        before = one.values()
        task = asyncio.create_task(one.clean())
        while not any(name.endswith(".cleaned") for name in kit.disk.names("orders-0")):
            await asyncio.sleep(0)
            assert not task.done()
        work: dict[str, Callable[[], Awaitable[object]]] = {
            "truncate": lambda: one.log.truncate_to(290, one.now_ms),
            "delete": lambda: one.log.delete_records_before(200, one.now_ms),
            "close": one.log.stop,
        }
        await work[disturb]()
        assert not await task
        assert one.directory.cleaner_stats.aborted == 1
        if disturb != "close":
            assert before.items() >= one.values().items()
        names = kit.disk.names("orders-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]

    kit.run(scenario())
