"""How uneven a load is: what counts as uneven, and when nobody knows."""

from collections.abc import Iterable

import pytest

from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_core.rebalance.brokers_load import (
    RATE_WINDOW_MS,
    Readings,
    as_partition,
    reading_of,
)
from chiplog_core.rebalance.measured import Measured
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Goal, read_settings
from chiplog_core.rebalance.skew import (
    MIN_EXCESS_BYTES,
    MIN_EXCESS_BYTES_PER_SECOND,
    Skew,
    skew_of,
)
from tests.rebalance.test_brokers_load import ONE, THREE, TWO, named, page, process, state
from tests.rebalance.worlds import brokers

GIB = 2**30


def percent_of(skew: Skew, goals: frozenset[Goal]) -> int | None:
    by_goal = skew.by_goal(goals)
    return None if by_goal is None else max(by_goal.values(), default=0)


def found(
    stored: int,
    leaders: int,
    idle: int | None = None,
    rate: int | None = None,
    *,
    replicas: int = 50,
) -> Skew:
    """Of replicas on two of three brokers, if nothing else is said."""
    return Skew(
        bytes_percent=stored,
        replicas_percent=replicas,
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
    assert skew(GIB, 6, ONE, TWO) == found(0, 100, replicas=0)


@pytest.mark.parametrize(
    ("goals", "percent"),
    [
        (frozenset(Goal), 70),
        ({Goal.DISK_USAGE}, 50),
        ({Goal.LEADER_REPLICAS}, 200),
        ({Goal.LEADER_REPLICAS, Goal.DISK_USAGE}, 200),
        ({Goal.LEADER_REPLICAS, Goal.LEADER_BYTES_IN}, 60),
        ({Goal.LEADER_BYTES_IN}, 40),
        ({Goal.REPLICAS}, 70),
        ({Goal.REPLICAS, Goal.DISK_USAGE}, 70),
        ({Goal.RACK_AWARE}, 0),
    ],
)
def test_what_a_proposal_does_not_even_out_does_not_count(
    goals: Iterable[Goal], percent: int
) -> None:
    skew = found(50, 200, idle=60, rate=40, replicas=70)
    assert percent_of(skew, frozenset(goals)) == percent


def test_what_cannot_be_more_even_or_is_not_worth_it_is_even() -> None:
    assert skew(1_000, 1) == found(0, 0, replicas=0)
    small, large = MIN_EXCESS_BYTES // 2, 2 * MIN_EXCESS_BYTES
    assert [skew(size, 3) for size in (small, large)] == [
        found(0, 200, replicas=0),
        found(50, 200, replicas=0),
    ]
    assert skew_of((ONE, TWO), {}, {}) == found(0, 0, idle=0, rate=0, replicas=0)


def test_brokers_that_leave_do_not_count() -> None:
    assert skew(GIB, 4, TWO, THREE) == found(100, 0, replicas=100)


@pytest.mark.parametrize(
    "partitions", [named(state(0, leader=None)), named(state(0, leader=TWO)), named(state(7))]
)
def test_it_is_not_known_if_a_partition_was_not_reported(partitions: object) -> None:
    assert skew_of((ONE, TWO), partitions, readings(GIB, 0)) is None  # type: ignore[arg-type]


def test_what_is_not_known_is_not_zero() -> None:
    skew = found(50, 200)
    assert percent_of(skew, frozenset(Goal)) is None
    assert percent_of(skew, frozenset({Goal.DISK_USAGE, Goal.LEADER_REPLICAS})) == 200


@pytest.mark.parametrize(("extra", "percent"), [(0, 0), (1, 0), (3, 0), (4, 8), (12, 23)])
def test_numbers_of_replicas_are_uneven_if_a_proposal_makes_them_even(
    extra: int, percent: int
) -> None:
    """Broker 1 has so many replicas more than the two others, which have 30 each; up to 5 % above
    the mean, rounded up, are even."""
    homes = [(ONE, TWO, THREE)[index % 3] for index in range(90)] + [ONE] * extra
    partitions = named(
        *(
            state(index, home, replicas=(home,), isr=(ReplicaRef(home, Session(1)),))
            for index, home in enumerate(homes)
        )
    )
    counted = page(0, dict.fromkeys(range(len(homes)), 0), size=0)
    all_read = {one: reading_of(process(one), [counted]) for one in (ONE, TWO, THREE)}
    found = skew_of((ONE, TWO, THREE), partitions, all_read)
    assert found is not None
    assert found.replicas_percent == percent

    world = tuple(as_partition(name, one, 0) for name, one in partitions.items())
    measured = {one.name: Measured(bytes=0, records=0) for one in world}
    settings = read_settings(goals=[Goal.REPLICAS])
    moves = propose(brokers(3), world, measured, settings).replica_moves
    assert bool(moves) is bool(percent)


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
    assert rated(MB_S, MB_S, MB_S) == found(0, 200, idle=0, rate=200, replicas=0)
    assert rated(MB_S, MB_S, 0, 0, 0, 0) == found(0, 200, idle=200, rate=150)
    assert rated(0, 0, 0) == found(0, 200, idle=200, rate=0, replicas=0)


def test_one_busy_partition_and_a_little_traffic_are_not_uneven() -> None:
    alone = rated(100 * MB_S, *[MB_S // 10] * 5)
    assert alone == found(0, 200, idle=0, rate=0)
    assert rated(*[MB_S // 10] * 12) == found(0, 200, idle=0, rate=0)


def test_rates_are_known_if_nearly_all_are() -> None:
    assert rated(*[MB_S] * 19, unknown=1) == found(0, 200, idle=0, rate=200)
    assert rated(*[MB_S] * 18, unknown=1) == found(0, 200)
