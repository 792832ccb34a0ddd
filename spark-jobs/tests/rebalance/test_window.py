"""Offsets that are read, windows, and the figures that follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import PartitionIndex
from chiplog_core.rebalance.measured import HotKey, PartitionName
from chiplog_spark.rebalance.tally import Tally
from chiplog_spark.rebalance.window import Reach, Window, covered, measured, measurements, reach

HOUR = 3_600_000
NOW = 10 * HOUR
WINDOW = Window(start_ms=NOW - HOUR, end_ms=NOW)


@pytest.mark.parametrize(
    ("start", "end", "sample", "read_from", "is_sampled"),
    [(0, 10, 100, 0, False), (5, 10, 5, 5, False), (5, 10, 4, 6, True), (7, 7, 1, 7, False)],
)
def test_the_newest_offsets_are_read(
    start: int, end: int, sample: int, read_from: int, is_sampled: bool
) -> None:
    found = reach(start, end, sample)

    assert (found.read_from, found.is_sampled) == (read_from, is_sampled)


def test_rates_are_over_the_window() -> None:
    tally = Tally(records=9, bytes=900, records_in_window=36, bytes_in_window=7200)
    tally.extend_range(NOW - 2 * HOUR, NOW)

    found = measured(tally, reach(0, 9, 100), WINDOW)

    assert (found.records, found.bytes) == (9, 900)
    assert (found.records_per_second, found.bytes_per_second) == (0.01, 2.0)


def test_a_young_cluster_is_measured_since_its_first_record() -> None:
    tally = Tally(records=10, bytes=100, records_in_window=10, bytes_in_window=100)
    tally.extend_range(NOW - 10_000, NOW)

    assert covered(WINDOW, [tally, Tally()]).start_ms == NOW - 10_000
    found = measured(tally, reach(0, 10, 100), covered(WINDOW, [tally]))
    assert found.bytes_per_second == 10.0


def test_a_window_is_never_shorter_than_a_second() -> None:
    tally = Tally(records=1, bytes=50, records_in_window=1, bytes_in_window=50)
    tally.extend_range(NOW, NOW)

    assert measured(tally, reach(0, 1, 9), covered(WINDOW, [tally])).bytes_per_second == 50.0


def test_what_was_not_read_is_estimated_from_what_was() -> None:
    tally = Tally(records=100, bytes=1_000, records_in_window=100, bytes_in_window=1_000)
    tally.extend_range(NOW - 100_000, NOW)

    found = measured(tally, reach(0, 5_000, 100), WINDOW)

    assert (found.records, found.bytes, found.sampled_records) == (5_000, 50_000, 100)
    assert found.bytes_per_second == 10.0


def test_a_partition_without_records_is_measured_as_idle() -> None:
    name = PartitionName("a", PartitionIndex(0))

    found = measurements({}, {name: Reach(start=3, end=3, read_from=3)}, WINDOW)

    assert (found[name].bytes, found[name].weight) == (0, 0)


def test_a_key_is_hot_by_what_is_sure() -> None:
    tally = Tally(records=100)
    tally.keys.add({b"hot": 10, b"warm": 9})
    tally.keys.error = 3

    assert tally.hot_keys() == (HotKey(key=b"hot", records=10, records_at_most=13),)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 100))
def test_no_more_is_read_than_is_requested(start: int, more: int, sample: int) -> None:
    found = reach(start, start + more, sample)

    assert start <= found.read_from <= found.end
    assert found.end - found.read_from <= sample
