"""A token bucket for each client: KIP-599."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.client_quotas.mutation_quota import BURST_S, MutationQuota
from chiplog_core.throttle.bucket import TokenBucket


def test_a_burst_goes_through_and_then_the_rate() -> None:
    bucket = TokenBucket.full(10, BURST_S, 0.0)
    assert [bucket.spend(1, 0.0) for _ in range(10 * BURST_S)] == [0] * 10 * BURST_S
    assert bucket.spend(1, 0.0) > 0
    assert bucket.spend(1, 0.1) == 0
    assert bucket.spend(1, 0.1) > 0


def test_a_change_larger_than_the_burst_goes_through_and_what_follows_waits_for_it() -> None:
    bucket = TokenBucket.full(10, BURST_S, 0.0)
    assert bucket.spend(310, 0.0) == 0
    assert bucket.spend(1, 0.0) == 20_000
    assert bucket.spend(1, 19.9) == 100
    assert bucket.spend(1, 20.1) == 0


def test_who_waits_as_long_as_told_is_served() -> None:
    bucket = TokenBucket.full(7, BURST_S, 0.0)
    bucket.spend(1_000, 0.0)
    wait_ms = bucket.spend(1, 0.0)
    assert bucket.spend(1, wait_ms / 1000 + 0.001) == 0


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 5)), max_size=60))
def test_no_more_goes_through_than_rate_and_burst_and_one_change(
    changes: list[tuple[int, float]],
) -> None:
    bucket, now_s, passed, largest = TokenBucket.full(10, BURST_S, 0.0), 0.0, 0, 0
    for partitions, pause_s in changes:
        now_s += pause_s
        largest = max(largest, partitions)
        if bucket.spend(partitions, now_s) == 0:
            passed += partitions
        assert passed <= 10 * (now_s + BURST_S) + largest + 1e-6


def test_one_client_does_not_use_up_what_another_has() -> None:
    quota = MutationQuota(10)
    assert quota.spend("a", 1_000, 0.0) == 0
    assert quota.spend("a", 1, 0.0) > 0
    assert quota.spend("b", 1, 0.0) == 0


def test_so_many_clients_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MutationQuota, "MAX_CLIENTS", 3)
    quota = MutationQuota(10)
    for number in range(100):
        assert quota.spend(f"c{number}", 1, 0.0) == 0
    # Beyond those there are, all share one: addresses without end are no way round it.
    assert quota.spend("another", 1_000, 0.0) == 0
    assert quota.spend("one more", 1, 0.0) > 0
    assert len(quota._buckets) <= 4
    # Who has been quiet is forgotten, and is as a new one.
    assert quota.spend("one more", 1, 1_000.0) == 0


def test_a_number_that_no_topic_can_have_does_not_lock_its_client_out() -> None:
    quota = MutationQuota(1)
    assert quota.spend("here", 1_000_000_000, 0.0) == 0
    assert quota.spend("here", 1, 0.0) == 0


def test_a_number_below_zero_gives_nothing_back() -> None:
    quota = MutationQuota(1)
    assert quota.spend("here", BURST_S - 2, 0.0) == 0
    # A client that creates a topic says how many partitions; that it cannot be is found later.
    assert quota.spend("here", -1_000, 0.0) == 0
    assert quota.spend("here", 1, 0.0) == 0
    assert quota.spend("here", 1, 0.0) > 0
