"""Rates hold for any pattern of requests, and clients do not pay for each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.client_quotas.accounting import (
    BURST_S,
    LONGEST_REQUEST_THROTTLE_S,
    LONGEST_THROTTLE_S,
    ClientQuotas,
    Limits,
)
from chiplog_core.client_quotas.entities import DEFAULT, Entity, Quota
from chiplog_core.client_quotas.table import NO_QUOTAS, QuotaTable, Values

MB = 1_000_000
LIMITED = {
    Quota.PRODUCER_BYTE_RATE: float(MB),
    Quota.CONSUMER_BYTE_RATE: float(MB),
    Quota.REQUEST_PERCENTAGE: 10.0,
    Quota.CONTROLLER_MUTATION_RATE: 5.0,
}
REQUESTS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 3 * MB)), min_size=1, max_size=60)


def quotas(entities: dict[Entity, Values]) -> ClientQuotas:
    made = ClientQuotas()
    made.use(QuotaTable(entities))
    return made


def of(made: ClientQuotas, user: str, client_id: str = "", now_s: float = 0.0) -> Limits:
    found = made.limits(user, client_id, now_s)
    assert found is not None
    return found


@given(REQUESTS, st.integers(1, 5))
def test_producers_that_wait_as_told_keep_the_rate(
    requests: list[tuple[float, int]], connections: int
) -> None:
    """Also if the user has several connections, each of which waits for itself."""
    limits = of(quotas({Entity("alice"): LIMITED}), "alice")
    free_at_s = [0.0] * connections
    sent, last = 0, 0.0
    for pause_s, size in requests:
        connection = min(range(connections), key=free_at_s.__getitem__)
        last = max(last, free_at_s[connection]) + pause_s
        wait_s = limits.produced(size, last)
        free_at_s[connection] = last + wait_s
        sent += size
        assert wait_s < LONGEST_THROTTLE_S, "this pattern has no such debt"
    # All that is over the rate is what each connection still waits for.
    assert sent <= MB * (max(*free_at_s, last) + BURST_S) + 1


@given(REQUESTS)
def test_consumers_keep_the_rate_and_make_progress(batches: list[tuple[float, int]]) -> None:
    limits = of(quotas({Entity("alice"): LIMITED}), "alice")
    now_s, got, largest = 0.0, 0, 0
    for pause_s, batch in batches:
        now_s += pause_s
        wait_s = limits.fetch_wait_s(now_s)
        if wait_s:
            now_s += wait_s - 1e-3  # timers may be a little early
            assert limits.fetch_wait_s(now_s) == 0
        allowed = limits.fetch_bytes(now_s)
        assert allowed is not None
        assert allowed >= 1
        answered = max(min(allowed, 3 * MB), batch)  # a batch is never split
        limits.fetched(answered, now_s)
        got, largest = got + answered, max(largest, batch)
        assert got <= MB * (now_s + BURST_S) + largest + 1


def test_a_steady_producer_gets_its_rate_and_no_more() -> None:
    limits = of(quotas({Entity("alice"): LIMITED}), "alice")
    now_s, sent = 0.0, 0
    while now_s < 30:
        sent += 100_000
        now_s += limits.produced(100_000, now_s) + 0.001
    assert sent / 30 == pytest.approx(MB, rel=0.05)


def test_users_do_not_pay_for_each_other() -> None:
    made = quotas({Entity(DEFAULT): LIMITED, Entity("bob"): {Quota.PRODUCER_BYTE_RATE: 1.0}})
    assert of(made, "alice").produced(10 * MB, 0.0) == pytest.approx(9.0)
    assert of(made, "carol").produced(MB, 0.0) == 0
    assert of(made, "alice", "other").produced(MB, 0.0) == pytest.approx(10.0)
    bob = of(made, "bob")
    assert bob.produced(3, 0.0) == pytest.approx(2.0)
    # It has no consumer rate of its own, so it has the default's.
    assert bob.fetch_bytes(0.0) == MB


def test_a_client_without_a_quota_has_no_limits() -> None:
    made = quotas({Entity("alice"): LIMITED})
    assert made.limits("bob", "alice", 0.0) is None
    assert made.is_active
    only = of(quotas({Entity("bob"): {Quota.PRODUCER_BYTE_RATE: 1.0}}), "bob")
    assert only.fetch_wait_s(0.0) == 0
    assert only.fetch_bytes(0.0) is None
    assert only.took(100.0, 0.0) == 0
    assert only.mutations is None


def test_waits_are_bounded_and_debts_are_not_forgotten() -> None:
    limits = of(quotas({Entity("alice"): LIMITED}), "alice")
    assert limits.produced(1_000 * MB, 0.0) == LONGEST_THROTTLE_S
    assert limits.produced(1, 300.0) == LONGEST_THROTTLE_S
    assert limits.produced(1, 990.0) == pytest.approx(9.0, abs=0.1)
    assert limits.took(10.0, 0.0) == LONGEST_REQUEST_THROTTLE_S
    assert limits.took(0.0, 98.0) == pytest.approx(LONGEST_REQUEST_THROTTLE_S)
    assert limits.took(0.0, 101.0) == 0


def test_a_quota_of_zero_allows_nothing_for_long() -> None:
    limits = of(quotas({Entity("alice"): dict.fromkeys(LIMITED, 0.0)}), "alice")
    assert limits.produced(1, 0.0) == LONGEST_THROTTLE_S
    assert limits.fetch_wait_s(0.0) == LONGEST_THROTTLE_S
    assert limits.took(0.001, 0.0) == LONGEST_REQUEST_THROTTLE_S
    assert limits.mutations is not None
    assert limits.mutations.spend(1, 0.0) > 0


def test_another_quota_takes_effect_at_once_and_the_same_keeps_debts() -> None:
    made = quotas({Entity("alice"): LIMITED})
    version = made.version
    of(made, "alice").produced(10 * MB, 0.0)
    made.use(QuotaTable({Entity("alice"): LIMITED, Entity("bob"): LIMITED}))
    assert made.version != version
    assert of(made, "alice").produced(0, 1.0) == pytest.approx(8.0)
    raised = {**LIMITED, Quota.PRODUCER_BYTE_RATE: 2.0 * MB}
    made.use(QuotaTable({Entity("alice"): raised}))
    assert of(made, "alice", now_s=1.0).produced(2 * MB, 1.0) == 0
    made.use(NO_QUOTAS)
    assert not made.is_active
    assert made.limits("alice", "", 1.0) is None


def test_there_are_so_many_buckets_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientQuotas, "MAX_BUCKETS", 6)
    made = quotas({Entity(None, DEFAULT): {Quota.PRODUCER_BYTE_RATE: 10.0}})
    for number in range(100):
        of(made, "alice", f"c{number}").produced(20, 0.0)
    assert len(made._buckets) <= 7
    # Client ids without end are no way round the quota: further ones share a bucket.
    assert of(made, "alice", "one more").produced(0, 0.0) > 100
    version = made.version
    assert of(made, "alice", "later", 10_000.0).produced(1, 10_000.0) == 0
    assert made.version != version, "clients with forgotten buckets get new ones"


def test_client_ids_without_end_take_nothing_from_users_with_quotas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClientQuotas, "MAX_BUCKETS", 6)
    rate = Quota.PRODUCER_BYTE_RATE
    made = quotas(
        {
            Entity("mallory", DEFAULT): {rate: 10.0},
            Entity("alice"): {rate: 1.0 * MB},
            Entity(None, DEFAULT): {rate: 2.0 * MB},
        }
    )
    for number in range(100):
        of(made, "mallory", f"c{number}").produced(MB, 0.0)
    assert of(made, "alice").produced(MB, 0.0) == 0
    assert of(made, "bob", "b").produced(2 * MB, 0.0) == 0
    for number in range(100):
        of(made, "carol", f"c{number}").produced(100 * MB, 0.0)
    assert of(made, "bob", "another").produced(0, 0.0) == 0
    assert of(made, "mallory", "one more").produced(0, 0.0) == LONGEST_THROTTLE_S
    assert len(made._buckets) <= 6 + 5


def test_long_client_ids_take_little_memory() -> None:
    made = quotas({Entity(None, DEFAULT): {Quota.PRODUCER_BYTE_RATE: 10.0}})
    of(made, "alice", "x" * 30_000)
    assert max(len(name[-1]) for name in made._buckets) < 2_000
