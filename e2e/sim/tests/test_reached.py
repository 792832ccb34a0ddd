"""Simulated clusters run nearly all of the code that decides, replicates and stores."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.lanes import is_full
from e2e.sim.reached import (
    LEFT_OUT,
    OPERATORS_LOOP,
    PACKAGES,
    ROOT,
    WAITING,
    Reach,
    is_counted,
    module_of,
    spans,
)


@pytest.mark.sim
@pytest.mark.skipif(not is_full(), reason="many seeds, some minutes: long form, `make sim-test`")
@pytest.mark.timeout(1800)
def test_seeds_reach_most_of_the_code() -> None:
    """In a process of its own: what runs at import counts, too."""
    command = [sys.executable, "-m", "e2e.sim.reached"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(
    "module", [*LEFT_OUT, *WAITING, *(f"chiplog_operator.{one}" for one in OPERATORS_LOOP)]
)
def test_what_is_named_is_there(module: str) -> None:
    directory = ROOT / PACKAGES[module.split(".", maxsplit=1)[0]]
    path = directory.joinpath(*module.split("."))
    assert path.is_dir() or path.with_suffix(".py").exists()


def test_modules_that_count() -> None:
    assert is_counted("chiplog_core.planner.plan")
    assert is_counted("chiplog_operator.loop")
    assert not is_counted("chiplog_operator.main")
    assert is_counted("chiplog_broker.coordinator.shard")
    assert not is_counted("chiplog_broker.coordinator.resetting")
    assert not is_counted("chiplog_broker.ports.system_disk")


def test_names_and_shares() -> None:
    assert module_of(Path("/a/core/chiplog_core/model/__init__.py")) == "chiplog_core.model"
    assert spans([3, 4, 5, 8]) == "3-5, 8"
    assert Reach("empty", 0, 0, "").share == 1.0
