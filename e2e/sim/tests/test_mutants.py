"""Planted bugs are seen, and the same faults without them show nothing."""

import pytest

from e2e.lanes import sample
from e2e.sim.mutants import MUTANTS
from e2e.sim.mutants.run import main, named, shown, stored
from e2e.sim.seed import run_seed

pytestmark = pytest.mark.usefixtures("no_log_lines")

QUICK = ("acknowledged before fsync", "a retry is not recognised")
OTHERS = [one for one in stored().items() if one[0] not in QUICK]


def test_there_is_a_seed_of_every_planted_bug() -> None:
    assert set(stored()) == {one.name for one in MUTANTS}
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_seen_and_nothing_without_it(name: str) -> None:
    mutant, seed = named(name), stored()[name]
    assert shown(mutant, seed)[0]
    assert run_seed(seed, mutant.mix).anomalies == []


@pytest.mark.sim
@pytest.mark.parametrize(("name", "seed"), sample(OTHERS, 6))
def test_the_stored_seed_still_shows_the_bug(name: str, seed: int) -> None:
    assert shown(named(name), seed)[0]


def test_the_table_says_what_was_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    name = "acknowledged before fsync"
    assert main(["--seeds", "0", "--jobs", "1", "--only", name]) == 1
    assert "0 of 1 planted bugs seen" in capsys.readouterr().out
