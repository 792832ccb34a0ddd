"""Planted bugs are seen, and the same faults without them show nothing."""

import logging
from collections.abc import Iterator

import pytest

from e2e.sim.mutants import MUTANTS, Mutant
from e2e.sim.seed import run_seed

SEED = 1


@pytest.fixture(autouse=True)
def no_log_lines() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_a_planted_bug_is_seen(mutant: Mutant) -> None:
    with mutant.planted():
        found = {one.name for one in run_seed(SEED, mutant.mix).anomalies}
    assert found & mutant.shows


@pytest.mark.parametrize("mutant", MUTANTS[1:3], ids=[one.name for one in MUTANTS[1:3]])
def test_without_the_bug_nothing_is(mutant: Mutant) -> None:
    """Three replicas without a bug are in `test_seeds`."""
    assert run_seed(SEED, mutant.mix).anomalies == []
