"""A bit that changes in an index steps over no record and makes no segment older than it is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log_state import index_settings
from chiplog_broker.storage.retention import count_expired
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.errors import DamagedBatchError

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
FIRST = "00000000000000000000"
BATCHES = 24
HOUR_MS = 3_600_000
# Readers of a compacted log have only the index to say where an offset is, as some are gone.
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=150, retention_ms=HOUR_MS)


def write(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """Two segments, closed in order. The batch with the newest record is not the last."""

    async def scenario() -> None:
        kit.config = CONFIG
        directory, log = await kit.new_log()
        for number in range(BATCHES):
            timestamp_ms = NOW + (5_000 if number == 7 else number)
            log.append_as_leader(make_batch([b"a", b"b"], timestamp_ms=timestamp_ms), 0, NOW)
        await directory.close({kit.orders: log.end_offset}, broker_epoch=1)

    kit.run(scenario())


def each_bit(kit: "StorageKit", name: str) -> Iterator[None]:
    """The file with each of its bits changed in turn."""
    content = kit.disk.content(kit.path(name))
    before = bytes(content)
    assert before
    for at in range(len(before)):
        for bit in range(8):
            content[:] = before
            content[at] ^= 1 << bit
            yield
    content[:] = before


def first_segment(kit: "StorageKit") -> Segment:
    """As after a clean shutdown: only the newest segment's end has been read."""
    segment = Segment(kit.disk, kit.orders.directory, 0, index_settings(CONFIG))
    found = kit.disk.names(kit.orders.directory)
    end = sorted(int(name[:20]) for name in found if name.endswith(".log"))[1]
    segment.open_sealed(end, NOW)
    return segment


def test_no_lookup_steps_over_a_batch(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    write(kit, make_batch)
    sound = first_segment(kit)
    right = [sound.position_of(offset) for offset in range(sound.end_offset)]
    refused = 0
    for _ in each_bit(kit, f"{FIRST}.index"):
        segment = first_segment(kit)
        for offset, position in enumerate(right):
            try:
                found = segment.position_of(offset)
            except DamagedBatchError:
                refused += 1
            else:
                assert found == position
    assert refused


def test_no_reader_gets_less_than_a_whole_slice(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    write(kit, make_batch)
    sound = first_segment(kit)
    asked = [(offset, size) for offset in range(0, sound.end_offset, 3) for size in (90, 400)]

    def slices(segment: Segment) -> Iterator[object]:
        for offset, size_bytes in asked:
            try:
                yield segment.slice_from(offset, size_bytes, segment.end_offset, min_one=True)
            except DamagedBatchError:
                yield None

    right = list(slices(sound))
    for _ in each_bit(kit, f"{FIRST}.index"):
        for found, expected in zip(slices(first_segment(kit)), right, strict=True):
            assert found in (expected, None)


def test_a_segment_is_as_old_as_its_batches_say(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    write(kit, make_batch)
    sound = first_segment(kit)
    assert (sound.max_timestamp_ms, sound.max_timestamp_offset) == (NOW + 5_000, 15)
    for _ in each_bit(kit, f"{FIRST}.timeindex"):
        segment = first_segment(kit)
        assert (segment.max_timestamp_ms, segment.max_timestamp_offset) == (NOW + 5_000, 15)


def test_where_nobody_knows_how_old_a_segment_is_it_stays(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    write(kit, make_batch)
    kit.disk.content(kit.path(f"{FIRST}.timeindex"))[:12] = bytes(12)
    kit.disk.content(kit.path(f"{FIRST}.timeindex"))[-12:] = bytes(12)
    log = kit.disk.content(kit.path(f"{FIRST}.log"))
    log[16] ^= 0xFF  # the magic of the first batch
    expired = count_expired(
        [first_segment(kit)],
        CONFIG,
        now_ms=NOW + 2 * HOUR_MS,
        high_watermark=10**6,
        log_start_offset=0,
    )
    assert expired == 0


def test_the_newest_segment_is_opened_by_its_batches_where_its_index_is_wrong(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    write(kit, make_batch)
    names = kit.disk.names(kit.orders.directory)
    last = max(name[:20] for name in names if name.endswith(".log"))

    async def reopened() -> tuple[int, int]:
        log = await kit.reopened()
        newest = log._state.segments.active
        return log.end_offset, newest.max_timestamp_ms

    for name in (f"{last}.index", f"{last}.timeindex"):
        content = kit.disk.content(kit.path(name))
        content[3] ^= 1
        # The mark of a clean shutdown goes with each opening.
        kit.run(kit.disk.replace(".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":1}'))
        assert kit.run(reopened()) == (2 * BATCHES, NOW + BATCHES - 1)
