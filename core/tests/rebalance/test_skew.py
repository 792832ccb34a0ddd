"""How uneven a load is: what counts as uneven, and when nobody knows."""

from collections.abc import Iterable

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.brokers_load import RATE_WINDOW_MS, Readings, reading_of
from chiplog_core.rebalance.settings import Goal
from chiplog_core.rebalance.skew import (
    MIN_EXCESS_BYTES,
    MIN_EXCESS_BYTES_PER_SECOND,
    Skew,
    highest_percent,
    skew_of,
)
from tests.rebalance.test_brokers_load import ONE, THREE, TWO, named, page, process, state

GIB = 2**30


def percent_of(skew: Skew, goals: frozenset[Goal]) -> int | None:
    return highest_percent(
        goals,
        of_bytes=skew.bytes_percent,
        of_leaders=skew.leaders_for(goals),
        of_bytes_in=skew.bytes_in_percent,
    )


def found(stored: int, leaders: int, idle: int | None = None, rate: int | None = None) -> Skew:
    return Skew(
        bytes_percent=stored,
        leaders_percent=leaders,
        idle_leaders_percent=idle,
        bytes_in_percent=rate,
    )


def readings(size: int, *indexes: int) -> Readings:
    return {ONE: reading_of(process(ONE), [page(0, dict.fromkeys(indexes, 0), size=size)])}


def skew(size: int, count: int, *brokers: BrokerId) -> Skew | None:
    """Of partitions with replicas on brokers 1 and 2, all led by 1."""
    partitions = named(*(state(index) for index in range(count)))
    return skew_of(brokers or (ONE, TWO, THREE), partitions, readings(size, *range(count)))


def test_the_fullest_broker_is_compared_to_the_mean() -> None:
    assert skew(GIB, 6) == found(50, 200)
    assert skew(GIB, 6, ONE, TWO) == found(0, 100)


@pytest.mark.parametrize(
    ("goals", "percent"),
    [
        (frozenset(Goal), 60),
        ({Goal.DISK_USAGE}, 50),
        ({Goal.LEADER_REPLICAS}, 200),
        ({Goal.LEADER_REPLICAS, Goal.DISK_USAGE}, 200),
        ({Goal.LEADER_REPLICAS, Goal.LEADER_BYTES_IN}, 60),
        ({Goal.LEADER_BYTES_IN}, 40),
        ({Goal.RACK_AWARE}, 0),
    ],
)
def test_what_a_proposal_does_not_even_out_does_not_count(
    goals: Iterable[Goal], percent: int
) -> None:
    skew = found(50, 200, idle=60, rate=40)
    assert percent_of(skew, frozenset(goals)) == percent


def test_what_cannot_be_more_even_or_is_not_worth_it_is_even() -> None:
    assert skew(1_000, 1) == found(0, 0)
    small, large = MIN_EXCESS_BYTES // 2, 2 * MIN_EXCESS_BYTES
    assert [skew(size, 3) for size in (small, large)] == [
        found(0, 200),
        found(50, 200),
    ]
    assert skew_of((ONE, TWO), {}, {}) == found(0, 0, idle=0, rate=0)


def test_brokers_that_leave_do_not_count() -> None:
    assert skew(GIB, 4, TWO, THREE) == found(100, 0)


@pytest.mark.parametrize(
    "partitions", [named(state(0, leader=None)), named(state(0, leader=TWO)), named(state(7))]
)
def test_it_is_not_known_if_a_partition_was_not_reported(partitions: object) -> None:
    assert skew_of((ONE, TWO), partitions, readings(GIB, 0)) is None  # type: ignore[arg-type]


def test_what_is_not_known_is_not_zero() -> None:
    skew = found(50, 200)
    assert percent_of(skew, frozenset(Goal)) is None
    assert percent_of(skew, frozenset({Goal.DISK_USAGE, Goal.LEADER_REPLICAS})) == 200


MB_S = MIN_EXCESS_BYTES_PER_SECOND


def rated(*rates: int, unknown: int = 0) -> Skew | None:
    """Of partitions with these bytes per second, and some whose leaders have just changed."""
    seconds = RATE_WINDOW_MS // 1000
    count = len(rates)
    before = page(0, dict.fromkeys(range(count), 0), size=0)
    later = {number: rate * seconds for number, rate in enumerate(rates)}
    now = page(RATE_WINDOW_MS, later | dict.fromkeys(range(count, count + unknown), 0), size=0)
    return skew_of(
        (ONE, TWO, THREE),
        named(*(state(number) for number in range(count + unknown))),
        {ONE: reading_of(process(ONE), [now])},
        {ONE: reading_of(process(ONE), [before])},
    )


def test_rates_are_compared_and_leaders_without_a_rate_may_move() -> None:
    assert rated(MB_S, MB_S, MB_S) == found(0, 200, idle=0, rate=200)
    assert rated(MB_S, MB_S, 0, 0, 0, 0) == found(0, 200, idle=200, rate=150)
    assert rated(0, 0, 0) == found(0, 200, idle=200, rate=0)


def test_one_busy_partition_and_a_little_traffic_are_not_uneven() -> None:
    alone = rated(100 * MB_S, *[MB_S // 10] * 5)
    assert alone == found(0, 200, idle=0, rate=0)
    assert rated(*[MB_S // 10] * 12) == found(0, 200, idle=0, rate=0)


def test_rates_are_known_if_nearly_all_are() -> None:
    assert rated(*[MB_S] * 19, unknown=1) == found(0, 200, idle=0, rate=200)
    assert rated(*[MB_S] * 18, unknown=1) == found(0, 200)
