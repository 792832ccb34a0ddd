"""`python -m e2e.bench`, which the Makefile calls."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from e2e.bench.experiments import EXPERIMENTS
from e2e.bench.lines import LINES, Line
from e2e.bench.memory import touch_free_memory
from e2e.bench.paired import (
    FAILURES,
    FULL,
    QUICK,
    TRIAL,
    Effort,
    Measured,
    NotMeasured,
    first_line,
    measure,
)
from e2e.bench.report import table, worst, write_json
from e2e.bench.rig import Rig, rig
from e2e.clients.standalone import StandaloneBroker
from e2e.cluster import layout
from e2e.cluster.console import Refused, console
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.process import BrokerProcess

TABLE_WIDTH = 130  # for a file or pipe, for which rich assumes 80 columns

app = typer.Typer(add_completion=False, help="Chiplog beside Apache Kafka, in one run.")


@app.command()
def bench(
    quick: Annotated[bool, typer.Option(help="Fewer pairs and smaller measurements.")] = False,
    trial: Annotated[
        bool, typer.Option(help="Only see whether it runs: one pair, hardly any load.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only this experiment; may be repeated.")
    ] = None,
    control: Annotated[
        bool,
        typer.Option(
            help="Measure a second Apache Kafka, not Chiplog: ratios are near 1, but for Fsync."
        ),
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all measurements to this file.")
    ] = None,
) -> None:
    """Measure both brokers and print the table; exit status 0 even where goals are missed."""
    effort = TRIAL if trial else QUICK if quick else FULL
    ours: type[BrokerProcess] = KafkaBroker if control else StandaloneBroker
    try:
        names = chosen(only or [])
        with rig(layout.cache() / "bench" / str(os.getpid()), effort, ours) as one:
            results, reasons = run_all(one, names, effort)
    except Refused as refused:
        console.print(f"bench: {refused}", markup=False)
        sys.exit(2)
    wide = console if console.is_terminal else Console(width=TABLE_WIDTH)
    wide.print(table(results, reasons))
    if json_file:
        write_json(json_file, results, effort, ours.title, reasons)
    console.print(worst(results), markup=False)


def chosen(only: list[str]) -> list[str]:
    """The experiments to run, in the order of `EXPERIMENTS`: those named in `only`, or all.

    Raises `Refused` for an unknown name.
    """
    for name in only:
        if name not in EXPERIMENTS:
            raise Refused(f"no experiment is called {name}; there are {', '.join(EXPERIMENTS)}")
    return [name for name in EXPERIMENTS if not only or name in only]


def run_all(
    rig_of_run: Rig, names: list[str], effort: Effort
) -> tuple[dict[Line, Measured], dict[str, str]]:
    """Run the experiments, with a progress bar each.

    Returns the measurement of each line, and for each experiment that could not be run or failed,
    why.
    """
    console.print(
        f"{effort.rounds} pairs that count, after {effort.warm_ups} to warm up; "
        f"load average of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    )
    if effort is not TRIAL:
        touched_gib = touch_free_memory() / 2**30
        console.print(f"{touched_gib:.1f} GiB of free memory touched beforehand")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    results: dict[Line, Measured] = {}
    reasons: dict[str, str] = {}
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for name in names:
            try:
                sides = EXPERIMENTS[name](rig_of_run)
                actual = sides.effort or effort
                task = progress.add_task(name, total=2 * (actual.warm_ups + actual.rounds))
                advance = partial(progress.advance, task)
                results |= measure(sides.ours, sides.theirs, actual, advance)
            except NotMeasured as problem:
                reasons[name] = str(problem)
            except FAILURES as failed:
                reasons[name] = f"failed: {first_line(failed)}"
                console.print(f"bench: {name} failed: {failed}", markup=False)
    in_table_order = {line: results[line] for line in LINES if line in results}
    return in_table_order, reasons
