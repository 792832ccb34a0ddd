"""The quota of copies: over a long time the limit holds, and every copy makes progress."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.throttle.quota import BURST_S, LEAST_SHARE, CopyQuota

RATES = st.integers(1, 10**9)


@given(
    RATES,
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 10**7)), min_size=1, max_size=50),
)
def test_no_more_than_the_limit_a_burst_and_one_batch(
    rate: int, steps: list[tuple[float, int]]
) -> None:
    quota, now_s, copied = CopyQuota(), 100.0, 0
    largest = 0
    for pause_s, batch in steps:
        now_s += pause_s
        available = quota.available_bytes(rate, now_s)
        if available:
            # A batch is never split, so the first one may exceed what is available.
            taken = max(batch, min(available, 3 * batch))
            quota.spend(taken, now_s)
            copied, largest = copied + taken, max(largest, batch)
    elapsed_s = now_s - 100.0
    assert copied <= rate * (elapsed_s + BURST_S) * (1 + 1e-6) + largest + 1


@given(RATES, st.integers(1, 10**9))
def test_a_copy_goes_on_even_if_a_batch_is_above_the_limit(rate: int, batch: int) -> None:
    quota, now_s = CopyQuota(), 0.0
    for _ in range(3):
        assert quota.available_bytes(rate, now_s) > 0
        quota.spend(batch, now_s)
        wait_s = quota.wait_s(rate, now_s)
        assert wait_s <= batch / rate + BURST_S
        now_s += wait_s * (1 + 1e-9) + 1e-6
    assert quota.available_bytes(rate, now_s) > 0


def test_a_used_up_quota_waits_for_a_share() -> None:
    quota = CopyQuota()
    assert quota.available_bytes(1000, 0) == 1000
    assert quota.wait_s(1000, 0) == 0
    quota.spend(1000, 0)
    assert quota.available_bytes(1000, 0) == 0
    assert quota.wait_s(1000, 0) == pytest.approx(LEAST_SHARE)
    assert quota.available_bytes(1000, 0.05) == 0
    assert quota.available_bytes(1000, 0.5) == 500
    assert quota.available_bytes(1000, 50) == 1000


def test_another_limit_takes_effect_at_once() -> None:
    quota = CopyQuota()
    quota.available_bytes(1, 0)
    quota.spend(10**6, 0)
    assert quota.available_bytes(1, 1) == 0
    assert quota.available_bytes(1000, 1) == 1000


def test_bytes_that_nobody_limits_only_count() -> None:
    quota = CopyQuota()
    quota.spend(10**9, 0)
    assert quota.available_bytes(5, 0) == 5


def test_the_rate_is_that_of_the_last_seconds() -> None:
    quota = CopyQuota()
    assert quota.rate(0) == 0
    for second in range(20):
        quota.spend(300, second + 0.2)
        quota.spend(700, second + 0.7)
    assert quota.rate(19.9) == 1000
    assert quota.rate(24) == 500
    assert quota.rate(60) == 0
