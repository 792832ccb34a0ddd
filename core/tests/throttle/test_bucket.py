"""Nothing that is taken from a bucket is forgotten, and it never holds more than a burst."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.throttle.bucket import LONGEST_WAIT_MS, TokenBucket

RATES = st.floats(0.1, 1e9)


@given(RATES, st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1e9)), max_size=40))
def test_what_was_taken_is_what_filled_and_what_is_owed(
    rate: float, uses: list[tuple[float, float]]
) -> None:
    """The bucket loses only what does not fit into it."""
    bucket, now_s, taken = TokenBucket.full(rate, 1.0, 0.0), 0.0, 0.0
    for pause_s, amount in uses:
        now_s += pause_s
        bucket.take(amount, now_s)
        taken += amount
    filled = rate * (1.0 + now_s)
    scale = filled + taken + rate
    assert bucket.tokens <= filled - taken + 1e-6 * scale
    assert bucket.tokens <= bucket.size


@given(RATES, st.floats(0, 1e9), st.floats(0.0, 1.0))
def test_who_waits_as_told_finds_the_share(rate: float, amount: float, share: float) -> None:
    bucket = TokenBucket.full(rate, 1.0, 0.0)
    bucket.take(amount, 0.0)
    wait_s = bucket.wait_s(0.0, share)
    bucket.fill(wait_s)
    assert bucket.tokens >= share * bucket.size - 1e-6 * (rate + amount)


def test_a_bucket_that_never_fills() -> None:
    bucket = TokenBucket.full(0, 1.0, 0.0)
    assert bucket.wait_s(0.0) == 0
    assert bucket.wait_s(0.0, 0.1) == math.inf
    assert bucket.spend(1, 5.0) == LONGEST_WAIT_MS
    assert bucket.take(1, 5.0) == math.inf


@pytest.mark.parametrize("rate", [5e-324, 1e-305, 1e-9])
def test_a_bucket_that_hardly_ever_fills(rate: float) -> None:
    bucket = TokenBucket.full(rate, 11.0, 0.0)
    assert bucket.spend(50, 0.0) == 0
    assert bucket.spend(50, 1.0) == LONGEST_WAIT_MS


def test_another_rate_takes_effect_at_once() -> None:
    bucket = TokenBucket.full(1, 1.0, 0.0)
    bucket.take(1_000, 0.0)
    bucket.change_rate(10, 1.0)
    assert bucket.tokens == 10
    assert bucket.take(20, 1.0) == pytest.approx(1.0)
