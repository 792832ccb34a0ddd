"""Users of simulated clusters: what changes of them is in force in time, and nobody is kept out."""

import json
from dataclasses import replace

import pytest

from e2e.lanes import sample
from e2e.sim.faults import OF_ACCOUNTS, Mix
from e2e.sim.seed import FIRST_SECURED, Result, mix_from, mix_of, run_seed
from e2e.sim.users.habits import UserHabits

pytestmark = pytest.mark.usefixtures("no_log_lines")

FEW = UserHabits(pause_s=0.5)


def mix(*faults: str, every_s: float = 3.0, faults_s: float = 20.0, brokers: int = 1) -> Mix:
    return Mix(
        brokers=brokers,
        operators=1,
        faults_s=faults_s,
        every_s=every_s,
        weights=dict.fromkeys(faults, 1.0),
        producers=1,
        consumers=0,
        pause_s=6.0,
        users=FEW,
    )


def sound(result: Result) -> bool:
    assert result.anomalies == []
    assert result.acked > 100
    return True


def test_users_are_changed_while_brokers_and_the_api_server_fail() -> None:
    faults = ("broker killed", "API server away", "watches broken", *sorted(OF_ACCOUNTS))
    one = mix(*faults, every_s=1.2, faults_s=18.0, brokers=2)
    result = run_seed(1, replace(one, users=replace(FEW, reauth_s=4.0)))
    assert sound(result)
    assert len(result.faults) > 6


def test_a_seed_of_users_does_the_same_again() -> None:
    one = mix("user deleted", "password changed", "clients CA lost", every_s=1.0, faults_s=5.0)
    one = replace(one, users=replace(FEW, proves=False))
    assert run_seed(2, one).trace == run_seed(2, one).trace


def test_a_deny_does_not_wait_for_a_secret() -> None:
    result = run_seed(1, mix("denied while a Secret is read", faults_s=12.0))
    assert sound(result)
    assert result.faults


@pytest.mark.sim
@pytest.mark.parametrize("fault", sample(sorted(OF_ACCOUNTS), 4))
def test_each_change_of_users(fault: str) -> None:
    result = run_seed(3, mix(fault, every_s=8.0, faults_s=60.0, brokers=2))
    assert sound(result)
    assert result.faults[fault] > 1


@pytest.mark.sim
def test_a_ca_is_replaced_step_by_step() -> None:
    """Issued from when all brokers trust it, and removed three minutes later."""
    one = mix("clients CA replaced", "broker killed", every_s=40.0, faults_s=500.0, brokers=2)
    assert sound(run_seed(1, one))


@pytest.mark.sim
@pytest.mark.parametrize("seed", sample(range(FIRST_SECURED, FIRST_SECURED + 10), 5))
def test_some_seeds_with_users(seed: int) -> None:
    assert run_seed(seed).anomalies == []


def test_users_log_in_from_a_seed_on() -> None:
    before = [mix_of(seed, 3) for seed in range(FIRST_SECURED - 20, FIRST_SECURED)]
    secured = [mix_of(seed, 3) for seed in range(FIRST_SECURED, FIRST_SECURED + 20)]
    assert not any(one.users or set(OF_ACCOUNTS) & set(one.weights) for one in before)
    assert all(one.users for one in secured)
    assert {name for one in secured for name in one.weights} >= set(OF_ACCOUNTS)


def test_a_kept_mix_has_its_users() -> None:
    one = mix_of(FIRST_SECURED, 1)
    kept = Result(seed=1, mix=one).to_json()
    assert mix_from(json.loads(kept)["mix"]) == one
