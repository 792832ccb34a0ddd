"""Ended processes are seen by their connections; a network that lies about it costs a session."""

import pytest

from e2e.sim.faults import Mix
from e2e.sim.seed import run_seed

pytestmark = pytest.mark.usefixtures("no_log_lines")

FALSELY = "fenced although it lives"


@pytest.mark.parametrize("seed", [1, 2])
def test_brokers_given_up_though_they_run_lose_nothing(seed: int) -> None:
    weights = {"refused falsely": 1.0}
    result = run_seed(seed, Mix(replicas=3, faults_s=40.0, every_s=4.0, weights=weights))
    assert result.faults[FALSELY] > 0
    assert result.anomalies == []
    assert result.acked > 100


def test_nor_where_others_die_and_ways_are_cut_meanwhile() -> None:
    names = ("refused falsely", "refused falsely", "broker killed", "partition", "broker paused")
    weights = {name: float(names.count(name)) for name in names}
    result = run_seed(3, Mix(replicas=3, faults_s=60.0, every_s=2.0, weights=weights))
    assert result.faults[FALSELY] > 0
    assert result.anomalies == []


def test_the_only_replica_is_never_given_up_so() -> None:
    weights = {"refused falsely": 1.0}
    result = run_seed(1, Mix(brokers=1, faults_s=30.0, every_s=3.0, weights=weights))
    assert result.faults["connection of the operator closed"] > 2
    assert FALSELY not in result.faults
    assert result.anomalies == []
