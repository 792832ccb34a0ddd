"""The sparse indexes against what a list would answer."""

import errno
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.storage.offset_index import OffsetIndex
from chiplog_broker.storage.sparse_index import PENDING_ENTRIES
from chiplog_broker.storage.time_index import TimeIndex

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

BASE = 1_000


def test_empty_indexes_point_to_the_beginning(kit: "StorageKit") -> None:
    index, times = OffsetIndex(kit.disk, "i", BASE), TimeIndex(kit.disk, "t", BASE)
    assert index.batch_before(BASE + 5) is None
    assert index.batch_at_or_before(10**9) is None
    assert index.last_batch() is None
    assert times.maximum() == (-1, BASE)
    assert times.offset_before(10**15) == BASE


@given(
    steps=st.lists(st.integers(1, 50), max_size=30),
    flush_at=st.sets(st.integers(0, 30)),
    probe=st.integers(0, 1_600),
)
def test_offset_lookups(
    kits: "Callable[[], StorageKit]", steps: list[int], flush_at: set[int], probe: int
) -> None:
    disk = kits().disk
    index = OffsetIndex(disk, "i", BASE)
    entries, offset = [], 0
    for number, step in enumerate(steps):
        offset += step
        index.add_batch(BASE + offset, offset * 10)
        entries.append((offset, offset * 10))
        if number in flush_at:
            index.flush()
    below = bisect_right(entries, (probe, 10**9)) - 1
    expected = (BASE + entries[below][0], entries[below][1]) if below >= 0 else None
    assert index.batch_before(BASE + probe) == expected
    assert index.batch_at_or_before(probe * 10) == expected
    index.cut_at_position(probe * 10)
    kept = [entry for entry in entries if entry[1] < probe * 10]
    assert len(index) == len(kept)
    assert index.last_batch() == ((BASE + kept[-1][0], kept[-1][1]) if kept else None)
    index.flush()
    again = OffsetIndex(disk, "i", BASE)
    assert [again.entry(number) for number in range(len(again))] == kept


@given(steps=st.lists(st.integers(-5, 50), max_size=30), probe=st.integers(0, 1_600))
def test_time_lookups(kits: "Callable[[], StorageKit]", steps: list[int], probe: int) -> None:
    times = TimeIndex(kits().disk, "t", BASE)
    entries: list[tuple[int, int]] = []
    timestamp_ms = 0
    for offset, step in enumerate(steps):
        timestamp_ms += step
        times.add_maximum(timestamp_ms, BASE + offset)
        if timestamp_ms > max((entry[0] for entry in entries), default=-1):
            entries.append((timestamp_ms, BASE + offset))
    older = [offset for entry_ms, offset in entries if entry_ms < probe]
    assert times.offset_before(probe) == (older[-1] if older else BASE)
    assert times.maximum() == (entries[-1] if entries else (-1, BASE))
    times.cut_at_offset(BASE + probe % 30)
    kept = [entry for entry in entries if entry[1] < BASE + probe % 30]
    assert times.maximum() == (kept[-1] if kept else (-1, BASE))


def test_many_entries_go_to_the_file_in_one_write(kit: "StorageKit") -> None:
    index = OffsetIndex(kit.disk, "i", 0)
    before = kit.disk.operations
    for number in range(PENDING_ENTRIES * 4 + 3):
        index.add_batch(number * 2, number * 100)
    assert kit.disk.operations - before == 4 + 1  # four writes, and making the file
    assert len(index) == PENDING_ENTRIES * 4 + 3
    for offset in (0, 1, 2, 999, PENDING_ENTRIES * 4, PENDING_ENTRIES * 8 + 4):
        assert index.batch_before(offset) == (offset // 2 * 2, offset // 2 * 100)


def test_entries_stay_in_memory_while_the_disk_is_full(kit: "StorageKit") -> None:
    index = OffsetIndex(kit.disk, "i", 0)
    index.flush()
    kit.disk.fail_next("write_at", errno.ENOSPC)
    for number in range(PENDING_ENTRIES + 10):
        index.add_batch(number, number * 10)
    last = PENDING_ENTRIES - 1
    assert index.batch_before(last) == (last, last * 10)
    index.flush()
    assert OffsetIndex(kit.disk, "i", 0).batch_before(last + 10) == (521, 5210)


def test_a_part_that_was_written_does_not_stand_behind_later_entries(kit: "StorageKit") -> None:
    index = OffsetIndex(kit.disk, "i", 0)
    for number in range(8):
        index.add_batch(number, number * 10)
    kit.disk.fail_next("write_at", errno.ENOSPC, written_share=0.5)
    with pytest.raises(OSError, match="injected"):
        index.flush()
    index.cut_at_position(0)
    index.add_batch(5, 10)
    index.flush()
    again = OffsetIndex(kit.disk, "i", 0)
    assert (len(again), again.last_batch()) == (1, (5, 10))
