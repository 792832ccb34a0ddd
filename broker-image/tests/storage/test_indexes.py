"""The sparse indexes against what a list would answer."""

import errno
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

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
    assert index.position_before(BASE + 5) == 0
    assert index.boundary_before(10**9) == 0
    assert index.last_position() == 0
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
    expected = entries[below][1] if below >= 0 else 0
    assert index.position_before(BASE + probe) == expected
    assert index.boundary_before(probe * 10) == expected
    index.cut_at_position(probe * 10)
    kept = [entry for entry in entries if entry[1] < probe * 10]
    assert len(index) == len(kept)
    assert index.last_position() == (kept[-1][1] if kept else 0)
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
        assert index.position_before(offset) == offset // 2 * 100


def test_entries_stay_in_memory_while_the_disk_is_full(kit: "StorageKit") -> None:
    index = OffsetIndex(kit.disk, "i", 0)
    index.flush()
    kit.disk.fail_next("write_at", errno.ENOSPC)
    for number in range(PENDING_ENTRIES + 10):
        index.add_batch(number, number * 10)
    assert index.position_before(PENDING_ENTRIES - 1) == (PENDING_ENTRIES - 1) * 10
    index.flush()
    assert OffsetIndex(kit.disk, "i", 0).position_before(PENDING_ENTRIES + 9) == 5210
