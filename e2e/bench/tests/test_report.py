"""The report: every line is there, and the last one names the worst."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from e2e.bench.experiments import EXPERIMENTS
from e2e.bench.lines import (
    JAVA_PRODUCE_100,
    LINES,
    MEMORY,
    START_EMPTY,
    THREE_100,
    TRANSACTIONS_COPY_HANGING,
)
from e2e.bench.paired import QUICK, Measured, Pair
from e2e.bench.report import short, table, worst, write_json

HALF = Measured((Pair(60, 100),))
DOUBLE = Measured((Pair(200, 100),))


def test_each_experiment_measures_a_line_and_each_line_has_one_that_exists() -> None:
    assert {line.experiment for line in LINES} == EXPERIMENTS.keys()


def test_no_two_lines_have_one_name() -> None:
    assert len({line.name for line in LINES}) == len(LINES)


def test_the_worst_line_by_ratio() -> None:
    results = {JAVA_PRODUCE_100: HALF, START_EMPTY: Measured((Pair(0.4, 2),))}
    assert worst(results) == "worst: Java produce, 100 B 0.60 (goal ≥ 1.2)"


def test_the_worst_line_by_our_own_number() -> None:
    results = {JAVA_PRODUCE_100: DOUBLE, MEMORY: Measured((Pair(150, 1200),))}
    assert worst(results) == "worst: Resident memory after load 150.00 MB (goal ≤ 100 MB)"


def test_all_met_still_names_the_nearest() -> None:
    results = {JAVA_PRODUCE_100: DOUBLE, MEMORY: Measured((Pair(90, 1200),))}
    assert worst(results) == "worst: Resident memory after load 90.00 MB (goal ≤ 100 MB)"


def test_a_transaction_that_hangs_is_worse_than_any_rate() -> None:
    hangs = Measured((Pair(1, 0),))
    results = {JAVA_PRODUCE_100: HALF, TRANSACTIONS_COPY_HANGING: hangs}
    assert worst(results) == (
        "worst: Hanging transactions after consume-transform-produce 1.00 left (goal ≤ 0 left)"
    )
    none = Measured((Pair(0, 0),))
    assert worst({**results, TRANSACTIONS_COPY_HANGING: none}).startswith("worst: Java produce")


def test_json_has_no_infinite_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_json(path, {TRANSACTIONS_COPY_HANGING: Measured((Pair(1, 0),))}, QUICK, "Chiplog", {})
    lines = {
        one["name"]: one
        for one in json.loads(path.read_text(), parse_constant=pytest.fail)["lines"]
    }
    found = lines[TRANSACTIONS_COPY_HANGING.name]
    assert (found["met"], found["measured"]["ours"], found["measured"]["ratio"]) == (False, 1, None)


def test_nothing_measured() -> None:
    assert worst({}) == "worst: nothing was measured"


def test_the_table_has_every_line() -> None:
    drawn = io.StringIO()
    Console(width=200, file=drawn).print(
        table({JAVA_PRODUCE_100: HALF, MEMORY: DOUBLE}, {"three-100": "no cluster here"})
    )
    rows = {row.strip().split("  ")[0]: row for row in drawn.getvalue().splitlines()}
    assert {line.name for line in LINES} <= rows.keys()
    assert rows[JAVA_PRODUCE_100.name].rstrip().endswith("missed")
    assert rows[START_EMPTY.name].rstrip().endswith("not measured: not asked for")
    assert rows[THREE_100.name].rstrip().endswith("not measured: no cluster here")


def test_json_holds_the_pairs_and_what_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_json(path, {JAVA_PRODUCE_100: HALF}, QUICK, "Chiplog", {})
    lines = {one["name"]: one for one in json.loads(path.read_text())["lines"]}
    assert lines[JAVA_PRODUCE_100.name]["measured"]["pairs"] == [{"ours": 60, "kafka": 100}]
    assert lines[JAVA_PRODUCE_100.name]["met"] is False
    assert lines[MEMORY.name]["measured"] is None
    assert lines[MEMORY.name]["why_not"] == "not asked for"


def test_numbers_keep_three_digits() -> None:
    assert [short(n) for n in (1_234_567, 1000, 52.34, 0.01234)] == [
        "1,230,000",
        "1,000",
        "52.3",
        "0.0123",
    ]
