"""How many partitions are advised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.rebalance.advice import (
    MAX_TIMES,
    TARGET_BYTES_PER_SECOND,
    Reason,
    TopicLoad,
    advise,
    topic_load,
    worth_reporting,
)
from chiplog_core.rebalance.measured import HotKey, Measured


def load(partitions: int, rate: float, hottest: float = 0.0) -> TopicLoad:
    return TopicLoad(topic="t", partitions=partitions, bytes_per_second=rate, hottest_share=hottest)


@pytest.mark.parametrize(
    ("given", "brokers", "all_rates", "number", "reasons"),
    [
        (load(6, 1000.0), 3, 1000.0, 6, [Reason.ENOUGH]),
        (load(6, 0.0), 9, 0.0, 6, [Reason.ENOUGH]),
        (load(1, 1000.0), 3, 1000.0, 3, [Reason.FEWER_THAN_BROKERS]),
        (load(1, 1.0), 3, 1000.0, 1, [Reason.ENOUGH]),
        (load(3, 5.5 * TARGET_BYTES_PER_SECOND), 3, 1.0, 6, [Reason.RATE]),
        (load(3, 99.0 * TARGET_BYTES_PER_SECOND), 3, 1.0, 12, [Reason.RATE, Reason.CAPPED]),
        (load(6, 1000.0, 0.5), 3, 1000.0, 6, [Reason.HOT_KEY]),
        (load(3, 11.0 * TARGET_BYTES_PER_SECOND, 0.4), 3, 1.0, 3, [Reason.RATE, Reason.HOT_KEY]),
    ],
)
def test_the_rule(
    given: TopicLoad, brokers: int, all_rates: float, number: int, reasons: list[Reason]
) -> None:
    advice = advise(given, brokers, all_rates)

    assert (advice.advised_partitions, list(advice.reasons)) == (number, reasons)
    assert advice.message


@given(
    st.integers(1, 2000),
    st.floats(0, 1e12),
    st.floats(0, 1),
    st.integers(0, 200),
    st.floats(0, 1e13),
)
def test_never_fewer_and_never_many_times_as_many(
    partitions: int, rate: float, hottest: float, brokers: int, others: float
) -> None:
    advice = advise(load(partitions, rate, hottest), brokers, rate + others)

    assert partitions <= advice.advised_partitions <= max(MAX_TIMES * partitions, brokers)


def test_a_hot_key_is_weighed_by_the_records_its_sample_stands_for() -> None:
    hot = HotKey(key=b"k", records=50, records_at_most=50)
    measured = {
        0: Measured(bytes=0, records=1000, sampled_records=100, hot_keys=(hot,)),
        1: Measured(bytes=0, records=1000, sampled_records=1000),
    }

    assert topic_load("t", measured, 2).hottest_share == 0.25


def test_only_what_is_to_be_changed_is_told() -> None:
    enough, grow = advise(load(6, 1.0), 3, 1.0), advise(load(1, 1.0), 3, 1.0)

    assert worth_reporting([enough, grow]) == (grow,)
