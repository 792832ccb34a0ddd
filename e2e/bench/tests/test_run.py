"""A run of one experiment with real brokers, to its end."""

import json
import re
import sys
from pathlib import Path

import pytest

from e2e.bench import cli
from e2e.bench.lines import JAVA_PRODUCE_100, JAVA_PRODUCE_1000, LINES, Line
from e2e.bench.paired import TRIAL, Cell, Numbers, Sides
from e2e.bench.rig import Rig
from e2e.clients.standalone import StandaloneBroker
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


def test_a_failed_experiment_says_why_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measures(line: Line) -> Cell:
        return lambda: {line: 1}

    def fails() -> Numbers:
        raise RuntimeError("the load ended:\nits last words")

    before, after = measures(JAVA_PRODUCE_100), measures(JAVA_PRODUCE_1000)
    experiments = {
        "before": lambda _rig: Sides(before, before),
        "failing": lambda _rig: Sides(before, fails),
        "after": lambda _rig: Sides(after, after),
    }
    monkeypatch.setattr(cli, "EXPERIMENTS", experiments)
    unused = Rig(tmp_path, TRIAL, StandaloneBroker)
    results, reasons = cli.run_all(unused, list(experiments), TRIAL)
    assert results.keys() == {JAVA_PRODUCE_100, JAVA_PRODUCE_1000}
    assert reasons == {"failing": "failed: the load ended:"}
    assert "its last words" in capsys.readouterr().out


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(
        CommandFailed, match="no experiment is called nothing; there are start, "
    ) as failed:
        run(*BENCH, "--only", "nothing")
    assert failed.value.status == 2
