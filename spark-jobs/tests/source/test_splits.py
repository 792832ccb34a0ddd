"""Splits: every offset in exactly one, none too large, every batch of exactly one."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.source.ranges import Range
from chiplog_spark.source.splits import MAX_SPLITS, splits_of
from chiplog_spark.wire.facts import TopicFacts

TOPIC = TopicFacts("orders", UUID(int=7), {}, {})
RANGES = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 10_000), st.integers(0, 1_000))
).map(lambda found: [Range(index, at, at + size) for index, (at, size) in found.items()])


def test_one_large_partition_is_for_many() -> None:
    found = splits_of(TOPIC, 3, [Range(0, 5, 1_000_005)], 100_000)
    assert len(found) == 10
    assert {one.end - one.start for one in found} == {100_000}
    assert [one.begins_range for one in found] == [True] + 9 * [False]
    assert {(one.at.topic_id, one.at.partition, one.at.replica) for one in found} == {
        (UUID(int=7), 0, 3)
    }


def test_where_nothing_is_to_be_read_is_no_split() -> None:
    assert splits_of(TOPIC, -1, [Range(0, 5, 5)], 100) == []


def test_a_driver_is_not_drowned_in_splits() -> None:
    found = splits_of(TOPIC, -1, [Range(0, 0, 10**12), Range(1, 0, 10**9)], 1)
    assert MAX_SPLITS <= len(found) <= MAX_SPLITS + 2


@given(RANGES, st.integers(1, 300))
def test_every_offset_is_in_exactly_one_split(ranges: list[Range], size: int) -> None:
    found = splits_of(TOPIC, -1, ranges, size)
    for one in ranges:
        mine = [split for split in found if split.at.partition == one.partition]
        covered = [offset for split in mine for offset in range(split.start, split.end)]
        assert covered == list(range(one.start, one.end))
        sizes = [split.end - split.start for split in mine]
        assert all(0 < length <= size for length in sizes)
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(RANGES, st.integers(1, 300), st.integers(0, 50))
def test_every_batch_is_of_exactly_one_split(ranges: list[Range], size: int, before: int) -> None:
    for one in ranges:
        mine = splits_of(TOPIC, -1, [one], size)
        # A batch may begin before the range; batches behind its end are not read at all.
        for base_offset in {max(one.start - before, 0), *range(one.start, one.end, 7)}:
            owners = [split for split in mine if split.owns(base_offset)]
            assert len(owners) == (1 if mine else 0)
