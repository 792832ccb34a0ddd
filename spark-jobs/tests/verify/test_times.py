"""Timestamps: what a batch says of its records, bounds, and the leader's clock."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.facts import Batch
from chiplog_spark.verify.times import (
    CLOCK_STEP_MS,
    CLOCKS_APART_MS,
    AppendOrder,
    check_bounds,
    check_newest,
)
from chiplog_wire.records.batch import CONTROL_MASK, TIMESTAMP_TYPE_MASK

from .logs import NOW_MS, batch, facts_of, judged, named

ONE = batch(7, 3)
HOUR_MS = 3_600_000
FACTS = replace(facts_of([ONE]), timestamp_after_max_ms=HOUR_MS)


@given(st.lists(st.integers(-1, NOW_MS), min_size=1))
def test_the_newest_record_is_what_the_batch_says(times_ms: list[int]) -> None:
    right = ONE._replace(max_timestamp_ms=max(times_ms))
    assert list(check_newest(FACTS, right, times_ms)) == []
    for wrong_by_ms in (-1, 1):
        wrong = right._replace(max_timestamp_ms=max(times_ms) + wrong_by_ms)
        assert named(list(check_newest(FACTS, wrong, times_ms))) == [("Timestamp", 7, 1)]


def test_the_leaders_time_and_an_empty_batch_say_nothing_of_records() -> None:
    stamped = ONE._replace(attributes=TIMESTAMP_TYPE_MASK)
    assert list(check_newest(FACTS, stamped, [1, 2, 3])) == []
    assert list(check_newest(FACTS, ONE._replace(record_count=0), [])) == []


def test_a_record_of_a_time_to_come() -> None:
    latest_ms = NOW_MS + HOUR_MS + CLOCKS_APART_MS
    late = ONE._replace(max_timestamp_ms=latest_ms + 1)
    assert named(list(check_bounds(FACTS, late))) == [("Timestamp", 7, 1)]
    for lawful in (
        ONE,
        ONE._replace(max_timestamp_ms=latest_ms),
        ONE._replace(max_timestamp_ms=-1),
        ONE._replace(max_timestamp_ms=0),
        late._replace(attributes=TIMESTAMP_TYPE_MASK),
        late._replace(attributes=CONTROL_MASK),
        late._replace(record_count=0),
    ):
        assert list(check_bounds(FACTS, lawful)) == []
    assert named(list(check_bounds(FACTS, ONE._replace(max_timestamp_ms=-2)))) == [
        ("Timestamp", 7, 1)
    ]


def stamped(times_ms: Sequence[int], epoch: int = 0) -> list[Batch]:
    return [
        batch(at, 1, epoch)._replace(attributes=TIMESTAMP_TYPE_MASK, max_timestamp_ms=NOW_MS + ms)
        for at, ms in enumerate(times_ms)
    ]


@given(st.lists(st.integers(0, 100_000)))
def test_the_leaders_clock_continues(times_ms: list[int]) -> None:
    log = stamped(sorted(times_ms))
    assert [one for each in log for one in AppendOrder(FACTS, 1).check_next(each)] == []
    if log:
        assert judged(facts_of(log, (1,)), {1: log}) == []


def test_the_leaders_clock_goes_back() -> None:
    log = stamped([0, 5_000, 5_000 - CLOCK_STEP_MS, 5_000 - CLOCK_STEP_MS - 1, 6_000])
    assert named(judged(facts_of(log, (1,)), {1: log})) == [("Timestamp", 3, 1)]


def test_another_leader_has_another_clock() -> None:
    log = stamped([100_000])
    log += [one._replace(base_offset=1, last_offset=1) for one in stamped([0], epoch=1)]
    assert judged(facts_of(log, (1,)), {1: log}) == []
