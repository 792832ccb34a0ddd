"""Prints what a run measured: the table, the worst line, and everything as JSON."""

import json
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from e2e.bench.lines import LINES, Goal, Line, Of
from e2e.bench.paired import Effort, Measured

Results = Mapping[Line, Measured]
Reasons = Mapping[str, str]
"""Experiment that could not be run -> why."""


def goal_number(line: Line, measured: Measured) -> float:
    """The measured number that is compared with the line's goal: the ratio, or our own number."""
    return measured.ratio if line.goal.of is Of.RATIO else measured.ours


def why_not(line: Line, reasons: Reasons) -> str:
    """Why a line was not measured: its experiment could not be run, or was not selected."""
    return reasons.get(line.experiment, "not asked for")


def table(results: Results, reasons: Reasons) -> Table:
    """The table with a row for every line; a line that was not measured says why."""
    drawn = Table(box=SIMPLE_HEAD)
    drawn.add_column("line")
    drawn.add_column("unit", no_wrap=True)
    for heading in ("ours", "Kafka's", "ratio", "spread", "goal"):
        drawn.add_column(heading, no_wrap=True, justify="right")
    drawn.add_column("")
    for line in LINES:
        found = numbers(line, results.get(line), why_not(line, reasons))
        drawn.add_row(line.name, line.unit, *found)
    return drawn


def numbers(line: Line, measured: Measured | None, why: str) -> tuple[str, ...]:
    """The table cells after name and unit; `why` says why the line was not measured."""
    goal = goal_text(line)
    if measured is None:
        return ("", "", "", "", goal, f"[dim]not measured: {escape(why)}[/]")
    met = line.goal.met_by(goal_number(line, measured))
    return (
        short(measured.ours),
        short(measured.theirs),
        f"{measured.ratio:.2f}",
        f"{measured.lowest:.2f}..{measured.highest:.2f}",
        goal,
        "[green]met[/]" if met else "[red]missed[/]",
    )


def goal_text(line: Line) -> str:
    """A goal as it is shown: "≥ 1.2" for a ratio, "≤ 20 µs" for our own number."""
    unit = "" if line.goal.of is Of.RATIO else f" {line.unit}"
    return f"{line.goal.better.value} {line.goal.value:g}{unit}"


def short(number: float) -> str:
    """A number with three significant digits: 1,234,567 → 1,230,000; 0.01234 → 0.0123."""
    if number >= 1000:
        digits = len(str(int(number))) - 3
        return f"{round(number, -digits):,.0f}"
    return f"{number:.3g}"


def worst(results: Results) -> str:
    """The output's last line: the measured line that misses its goal by most.

    Where all goals are met, it is the line that meets its goal by least.
    """
    if not results:
        return "worst: nothing was measured"
    line = min(results, key=lambda one: one.goal.reached(goal_number(one, results[one])))
    measured = results[line]
    unit = "" if line.goal.of is Of.RATIO else f" {line.unit}"
    number = f"{goal_number(line, measured):.2f}{unit}"
    return f"worst: {line.name} {number} (goal {goal_text(line)})"


def write_json(path: Path, results: Results, effort: Effort, title: str, reasons: Reasons) -> None:
    """Write all pairs and the machine's data to a file; `title` says what "ours" was."""
    document = {
        "ours": title,
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "effort": {
            "rounds": effort.rounds,
            "warm_ups": effort.warm_ups,
            "scale": effort.scale,
        },
        "lines": [as_json(line, results.get(line), why_not(line, reasons)) for line in LINES],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def as_json(line: Line, measured: Measured | None, why: str) -> dict[str, object]:
    known = {"name": line.name, "unit": line.unit, "goal": goal_json(line.goal)}
    if measured is None:
        return {**known, "measured": None, "why_not": why}
    return {
        **known,
        "met": line.goal.met_by(goal_number(line, measured)),
        "measured": {
            "ours": measured.ours,
            "kafka": measured.theirs,
            "ratio": finite(measured.ratio),
            "lowest": finite(measured.lowest),
            "highest": finite(measured.highest),
            "pairs": [{"ours": pair.ours, "kafka": pair.theirs} for pair in measured.pairs],
        },
    }


def finite(ratio: float) -> float | None:
    """The ratio, or None for what JSON has no number for."""
    return ratio if math.isfinite(ratio) else None


def goal_json(goal: Goal) -> dict[str, object]:
    return {"of": goal.of.value, "better": goal.better.name.lower(), "value": goal.value}
