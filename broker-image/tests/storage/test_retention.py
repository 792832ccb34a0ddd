"""Which segments have had their time: limits to the millisecond, the byte and the offset."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.storage import retention
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.retention import count_expired
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.errors import DamagedBatchError

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

NOW = 1_000_000
LATER = NOW + 10**9
SMALL = LogConfig(segment_bytes=300, retention_ms=-1)
ENDS = [6, 12, 18, 20]


async def filled(
    kit: "StorageKit", make_batch: "MakeBatch", timestamp_ms: int = NOW
) -> Sequence[Segment]:
    """Ten batches of two records, three of them a segment."""
    kit.config = SMALL
    _, log = await kit.new_log()
    for number in range(10):
        batch = make_batch([b"%020d" % number, b""], timestamp_ms=timestamp_ms)
        log.append_as_leader(batch, 0, NOW)
    found = log._state.segments.as_list()
    assert [one.end_offset for one in found] == ENDS
    return found


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int = LATER,
    high_watermark: int = 20,
    log_start_offset: int = 0,
) -> int:
    return count_expired(
        segments,
        config,
        now_ms=now_ms,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
    )


def test_without_a_limit_all_stay(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    segments = kit.run(filled(kit, make_batch))
    assert expired(segments, SMALL) == 0


def test_by_time(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    segments = kit.run(filled(kit, make_batch))
    for retention_ms in (0, 1, 1_000):
        config = replace(SMALL, retention_ms=retention_ms)
        assert expired(segments, config, now_ms=NOW + retention_ms) == 0
        assert expired(segments, config, now_ms=NOW + retention_ms + 1) == 4


def test_a_topic_that_is_only_compacted_keeps_what_is_old_and_large(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    segments = kit.run(filled(kit, make_batch))
    config = replace(SMALL, deletes=False, compacts=True, retention_ms=1, retention_bytes=0)
    assert expired(segments, config) == 0


def test_what_the_log_start_has_passed_goes_but_never_the_newest_segment(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    segments = kit.run(filled(kit, make_batch))
    config = replace(SMALL, deletes=False, compacts=True)
    starts = [0, 5, 6, 11, 12, 17, 18, 19, 20]
    found = [expired(segments, config, log_start_offset=start) for start in starts]
    assert found == [0, 0, 1, 1, 2, 2, 3, 3, 3]


def test_by_size_each_segment_goes_that_can_be_spared(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    segments = kit.run(filled(kit, make_batch))
    size_bytes = [one.size_bytes for one in segments]
    for count in range(5):
        least_bytes = sum(size_bytes[count:])
        config = replace(SMALL, retention_bytes=least_bytes)
        assert expired(segments, config) == count
        if count < 4:
            assert expired(segments, replace(SMALL, retention_bytes=least_bytes - 1)) == count


def test_one_byte_too_many_spares_no_segment(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    segments = kit.run(filled(kit, make_batch))
    whole_bytes = sum(one.size_bytes for one in segments)
    first_bytes = segments[0].size_bytes
    spared = replace(SMALL, retention_bytes=whole_bytes - first_bytes)
    assert expired(segments, spared) == 1
    assert expired(segments, replace(spared, retention_bytes=spared.retention_bytes + 1)) == 0


def test_nothing_at_or_above_the_high_watermark_goes(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    segments = kit.run(filled(kit, make_batch))
    config = replace(SMALL, retention_ms=0, retention_bytes=0)
    found = [expired(segments, config, high_watermark=one) for one in (5, 6, 11, 12, 19, 20)]
    assert found == [0, 1, 1, 2, 3, 4]


def test_an_empty_segment_stays_however_old(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    async def scenario() -> None:
        kit.config = replace(SMALL, retention_ms=0, retention_bytes=0)
        _, log = await kit.new_log()
        log.append_as_leader(make_batch([b"a"], timestamp_ms=NOW), 0, NOW)
        assert await log.enforce_retention(1, LATER) == 1
        assert (log.segment_count, log.log_start_offset, log.size_bytes) == (1, 1, 0)
        assert await log.enforce_retention(1, 2 * LATER) == 0

    kit.run(scenario())


def test_segments_from_a_damaged_one_on_stay_and_older_ones_go(
    kit: "StorageKit", make_batch: "MakeBatch", monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = kit.run(filled(kit, make_batch))
    newest_record_ms = retention.newest_record_ms

    def damaged(segment: Segment) -> int:
        if segment is segments[2]:
            raise DamagedBatchError("the checksum is wrong", 0)
        return newest_record_ms(segment)

    monkeypatch.setattr(retention, "newest_record_ms", damaged)
    assert expired(segments, replace(SMALL, retention_ms=1)) == 2


def test_a_record_of_1970_is_old(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    segments = kit.run(filled(kit, make_batch, timestamp_ms=0))
    assert all(one.created_ms == NOW for one in segments)
    config = replace(SMALL, retention_ms=NOW - 1)
    assert expired(segments, config, now_ms=NOW) == 4
    assert expired(segments, config, now_ms=NOW - 1) == 0
