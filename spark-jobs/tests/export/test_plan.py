"""What a run reads, and into what it is cut."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.export.commits import CommittedEnd, OffsetRange
from chiplog_spark.export.plan import (
    FIRST_RECORDS_PER_FILE,
    Bounds,
    Held,
    Step,
    WentBack,
    next_step,
    plan,
    records_per_file,
    remaining_after,
)
from chiplog_spark.source.ranges import Range
from chiplog_spark.source.splits import splits_of
from chiplog_spark.wire.facts import TopicFacts
from chiplog_spark.wire.verdicts import LEADER


def r(partition: int, first: int, end: int) -> OffsetRange:
    return OffsetRange(partition=partition, first=first, end=end)


def at(partition: int, offset: int) -> CommittedEnd:
    return CommittedEnd(partition=partition, offset=offset)


RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), max_size=6).map(
    lambda found: tuple(r(n, first, first + size) for n, (first, size) in enumerate(found))
)


def test_nothing_is_committed_yet() -> None:
    found = plan({0: Held(5, 9), 1: Held(3, 3)}, ())
    assert found.todo == (r(0, 5, 9),)
    assert found.lost == ()


def test_it_continues_behind_what_is_committed_and_a_new_partition_begins() -> None:
    found = plan({0: Held(0, 9), 1: Held(0, 4)}, [at(0, 7)])
    assert found.todo == (r(0, 7, 9), r(1, 0, 4))


def test_what_retention_took_in_between_is_reported() -> None:
    found = plan({0: Held(8, 9), 1: Held(5, 5)}, [at(0, 7), at(1, 2)])
    assert found.todo == (r(0, 8, 9),)
    assert found.lost == (r(0, 7, 8), r(1, 2, 5))


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ([at(0, 10)], "partition 0 was exported up to 10, but ends at 9"),
        ([at(1, 0)], "partition 1 was exported, but does not exist any more"),
    ],
)
def test_a_topic_that_is_not_the_one_it_was(ends: list[CommittedEnd], says: str) -> None:
    with pytest.raises(WentBack, match=says):
        plan({0: Held(0, 9)}, ends)


@given(RANGES, st.integers(1, 40), st.integers(1, 10))
def test_steps_take_everything_once_and_none_is_too_large(
    todo: tuple[OffsetRange, ...], size: int, files: int
) -> None:
    seen = []
    left = todo
    while left:
        step = next_step(left, size, files)
        assert 0 < len(step.files) <= files
        assert all(0 < one.end - one.first <= size for one in step.files)
        seen += [(one.partition, n) for one in step.files for n in range(one.first, one.end)]
        left = remaining_after(left, step)
    wanted = [(one.partition, n) for one in todo for n in range(one.first, one.end)]
    assert sorted(seen) == wanted


@given(RANGES, st.integers(1, 40))
def test_a_file_is_a_split_of_the_data_source(todo: tuple[OffsetRange, ...], size: int) -> None:
    """So a task writes one file, and a file is written by one task."""
    topic = TopicFacts("t", uuid4(), {}, {})
    ranges = [Range(one.partition, one.first, one.end) for one in todo]
    splits = [
        (one.at.partition, one.start, one.end) for one in splits_of(topic, LEADER, ranges, size)
    ]
    assert splits == [(one.partition, one.first, one.end) for one in Step(todo, size).files]


def test_how_many_records_fit() -> None:
    bounds = Bounds(file_bytes=1_000_000, records_per_file=200_000, files_per_commit=4)
    assert records_per_file(bounds, 0, 0) == FIRST_RECORDS_PER_FILE
    assert records_per_file(bounds, 10, 1_000) == 10_000
    assert records_per_file(bounds, 10, 10) == 200_000
    assert records_per_file(bounds, 1, 5_000_000) == 1
