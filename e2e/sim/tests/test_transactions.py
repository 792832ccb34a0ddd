"""Simulated transactions: they are committed, recover from faults, and repeat with their seed."""

import json

import pytest

from chiplog_wire.protocol.apis import APIS
from e2e.lanes import sample
from e2e.sim.faults import OF_TRANSACTIONS, Mix
from e2e.sim.seed import (
    FIRST_SECURED,
    FIRST_TRANSACTIONAL,
    Result,
    mix_from,
    mix_of,
    replicas_of,
    run_seed,
)
from e2e.sim.transactions.habits import TransactionHabits
from e2e.sim.transactions.wire import SUPPORTED

pytestmark = pytest.mark.usefixtures("no_log_lines")

FEW = TransactionHabits(producers=1, readers=1, partitions=2, pause_s=0.2, timeout_s=6.0)


def test_transactions_without_faults() -> None:
    mix = Mix(brokers=1, operators=1, producers=1, consumers=0, faults_s=8.0, transactions=FEW)
    result = run_seed(1, mix)
    assert result.anomalies == []
    assert result.transactions > 5
    assert result.aborted > 0
    assert result.fenced == 0


@pytest.mark.sim
@pytest.mark.parametrize("fault", sample(sorted(OF_TRANSACTIONS), 6))
def test_each_fault_of_transactions(fault: str) -> None:
    mix = Mix(
        replicas=3,
        producers=1,
        consumers=0,
        faults_s=40.0,
        every_s=8.0,
        weights={fault: 1.0},
        transactions=FEW,
    )
    result = run_seed(3, mix)
    assert result.anomalies == []
    assert result.faults[fault] > 1
    assert result.transactions > 5


@pytest.mark.sim
@pytest.mark.parametrize("seed", sample(range(FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 8), 4))
def test_seeds_with_transactions(seed: int) -> None:
    result = run_seed(seed)
    assert result.anomalies == []
    assert result.transactions > 0


def test_only_later_seeds_have_transactions() -> None:
    seeds = range(FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 20)
    before = range(FIRST_SECURED, FIRST_SECURED + 20)
    assert all(mix_of(seed, replicas_of(seed)).transactions is not None for seed in seeds)
    assert all(mix_of(seed, replicas_of(seed)).transactions is None for seed in before)


def test_a_stored_mix_with_transactions_is_the_same() -> None:
    mix = mix_of(FIRST_TRANSACTIONAL, 3)
    stored = Result(seed=FIRST_TRANSACTIONAL, mix=mix).to_json()
    assert mix_from(json.loads(stored)["mix"]) == mix


def test_brokers_support_the_versions_of_the_clients() -> None:
    for key, (oldest, newest) in SUPPORTED.items():
        assert APIS[key].min_served <= oldest <= newest <= APIS[key].max_version
