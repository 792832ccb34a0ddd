"""A run of one experiment with real brokers, to its end."""

import json
import re
import sys
from pathlib import Path

import pytest

from e2e.bench.lines import LINES
from e2e.cluster.shell import CommandFailed, run

BENCH = (sys.executable, "-m", "e2e.bench", "--trial")


@pytest.mark.clients
@pytest.mark.timeout(900)
def test_one_experiment(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    printed = run(*BENCH, "--only", "one-record", "--json", str(path), timeout_s=880)
    assert re.fullmatch(
        r"worst: (Java produce|Broker CPU), one.record.* \(goal [≥≤] [\d.]+.*\)",
        printed.splitlines()[-1],
    )
    measured = {one["name"]: one["measured"] for one in json.loads(path.read_text())["lines"]}
    assert {name for name, found in measured.items() if found} == {
        line.name for line in LINES if line.experiment == "one-record"
    }


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(
        CommandFailed, match="no experiment is called nothing; there are start, "
    ) as failed:
        run(*BENCH, "--only", "nothing")
    assert failed.value.status == 2
