"""How uneven a load is: what counts as uneven, and when nobody knows."""

from collections.abc import Iterable

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.brokers_load import Readings, reading_of
from chiplog_core.rebalance.settings import Goal
from chiplog_core.rebalance.skew import MIN_EXCESS_BYTES, Skew, skew_of
from tests.rebalance.test_brokers_load import ONE, THREE, TWO, named, page, process, state

GIB = 2**30


def readings(size: int, *indexes: int) -> Readings:
    return {ONE: reading_of(process(ONE), [page(0, dict.fromkeys(indexes, 0), size=size)])}


def skew(size: int, count: int, *brokers: BrokerId) -> Skew | None:
    """Of partitions with replicas on brokers 1 and 2, all led by 1."""
    partitions = named(*(state(index) for index in range(count)))
    return skew_of(brokers or (ONE, TWO, THREE), partitions, readings(size, *range(count)))


def test_the_fullest_broker_is_compared_to_the_mean() -> None:
    assert skew(GIB, 6) == Skew(bytes_percent=50, leaders_percent=200)
    assert skew(GIB, 6, ONE, TWO) == Skew(bytes_percent=0, leaders_percent=100)


@pytest.mark.parametrize(
    ("goals", "percent"),
    [
        (frozenset(Goal), 50),
        ({Goal.LEADER_REPLICAS}, 200),
        ({Goal.LEADER_REPLICAS, Goal.DISK_USAGE}, 200),
        ({Goal.LEADER_REPLICAS, Goal.LEADER_BYTES_IN}, 0),
        ({Goal.RACK_AWARE}, 0),
    ],
)
def test_what_a_proposal_does_not_even_out_does_not_count(
    goals: Iterable[Goal], percent: int
) -> None:
    found = Skew(bytes_percent=50, leaders_percent=200)
    assert found.percent_of(frozenset(goals)) == percent


def test_what_cannot_be_more_even_or_is_not_worth_it_is_even() -> None:
    assert skew(1_000, 1) == Skew(bytes_percent=0, leaders_percent=0)
    small, large = MIN_EXCESS_BYTES // 2, 2 * MIN_EXCESS_BYTES
    assert [skew(size, 3) for size in (small, large)] == [
        Skew(bytes_percent=0, leaders_percent=200),
        Skew(bytes_percent=50, leaders_percent=200),
    ]
    assert skew_of((ONE, TWO), {}, {}) == Skew(bytes_percent=0, leaders_percent=0)


def test_brokers_that_leave_do_not_count() -> None:
    assert skew(GIB, 4, TWO, THREE) == Skew(bytes_percent=100, leaders_percent=0)


@pytest.mark.parametrize(
    "partitions", [named(state(0, leader=None)), named(state(0, leader=TWO)), named(state(7))]
)
def test_it_is_not_known_if_a_partition_was_not_reported(partitions: object) -> None:
    assert skew_of((ONE, TWO), partitions, readings(GIB, 0)) is None  # type: ignore[arg-type]
