"""Simulate seeds on all processors, show the progress, and print a table of the results.

A seed in which an anomaly was found is stored as a JSON file in `e2e/sim/seeds`.
"""

import argparse
import concurrent.futures
import json
import math
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from e2e.sim.checkers import Anomaly
from e2e.sim.faults import Mix
from e2e.sim.seed import Result, mix_from, mix_of, mix_of_groups, quiet, replicas_of, run_seed
from e2e.sim.table import table

KEPT: Final = Path(__file__).parent / "seeds"
GROUPS_S: Final = 1800.0
"""With `--group-hours`, how long one run injects faults, in simulated seconds."""
Run = tuple[int, Mix]
"""A seed and its mix of faults and loads."""


def kept_seeds() -> list[Run]:
    """The seeds that failed in earlier runs, each with the mix that it had in that run."""
    stored = [json.loads(one.read_text()) for one in sorted(KEPT.glob("*.json"))]
    return [(int(one["seed"]), mix_from(one["mix"])) for one in stored]


def results(runs: Sequence[Run], jobs: int) -> Iterator[Result]:
    """Simulate the runs in `jobs` processes; yield each result as soon as it is there.

    With one job all runs are simulated in this process, in their order.
    """
    if jobs == 1:
        quiet()
        yield from (ended(*one) for one in runs)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        begun = [pool.submit(ended, *one) for one in runs]
        for done in concurrent.futures.as_completed(begun):
            yield done.result()


def ended(seed: int, mix: Mix) -> Result:
    """Simulate one seed; an exception of the simulator becomes an anomaly of this seed.

    So an error in the simulator does not end the runs of the other seeds.
    """
    try:
        return run_seed(seed, mix)
    except Exception as error:  # noqa: BLE001 - it is the result
        what = "".join(traceback.format_exception(error)[-3:])
        anomalies = [Anomaly("not-finished", "", what)]
        return Result(seed=seed, mix=mix, replicas=mix.replicas, anomalies=anomalies)


def options_of(given: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; `None` stands for the arguments of this process."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sim", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=20, metavar="N", help="number of seeds to simulate"
    )
    parser.add_argument(
        "--from",
        type=int,
        default=1,
        dest="first",
        metavar="SEED",
        help="the first seed; seeds from 3000001 on also move replicas, those from 4000001 on hit "
        "each move at one of its steps, those from 6000001 on have users who log in, and those "
        "from 7000001 on transactional producers",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="seeds simulated at the same time"
    )
    parser.add_argument(
        "--replicas", type=int, help="replicas of each partition (default: the seed decides)"
    )
    parser.add_argument(
        "--group-hours",
        type=float,
        default=0.0,
        metavar="HOURS",
        help="simulate this many hours with consumer groups only, in place of --seeds",
    )
    parser.add_argument(
        "--kept", action="store_true", help="also run the seeds stored in e2e/sim/seeds"
    )
    parser.add_argument("--no-keep", action="store_true", help="do not store seeds that fail")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run seeds; the exit status is 1 if any seed has an anomaly."""
    options = options_of(given)
    runs = chosen(options)
    if options.kept:
        runs += [one for one in kept_seeds() if one not in runs]
    console = Console(highlight=False, soft_wrap=True)
    done = []
    for one in shown(console, runs, options.jobs):
        done.append(one)
        if one.anomalies and not options.no_keep:
            KEPT.mkdir(exist_ok=True)
            prefix = "groups" if options.group_hours else str(one.replicas)
            (KEPT / f"{prefix}-{one.seed}.json").write_text(one.to_json())
    say(table(done))
    return 1 if any(one.anomalies for one in done) else 0


def chosen(options: argparse.Namespace) -> list[Run]:
    """The runs that the command line asks for, without the stored seeds of `--kept`.

    `--group-hours` is divided into runs of `GROUPS_S` each, rounded up.
    """
    first: int = options.first
    if options.group_hours:
        seeds = range(first, first + math.ceil(options.group_hours * 3600 / GROUPS_S))
        return [(seed, mix_of_groups(seed, GROUPS_S)) for seed in seeds]
    seeds = range(first, first + options.seeds)
    return [(seed, mix_of(seed, options.replicas or replicas_of(seed))) for seed in seeds]


def shown(console: Console, runs: Sequence[Run], jobs: int) -> Iterator[Result]:
    """Yield the results, and show them while they come.

    A terminal gets a progress bar and a line for each seed with anomalies; other outputs get a
    line for every seed.
    """
    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(runs))
        simulated_s, wrong = 0.0, 0
        for one in results(runs, jobs):
            simulated_s += one.simulated_s
            wrong += bool(one.anomalies)
            if one.anomalies or not console.is_terminal:
                console.print(line(one), markup=False)
            for anomaly in one.anomalies[:5]:
                what = f"    {anomaly.name} {anomaly.partition}: {anomaly.what}"
                console.print(what, markup=False)
            progress.update(
                bar, advance=1, description=f"{simulated_s / 3600:.1f} h simulated, {wrong} wrong"
            )
            yield one


def line(one: Result) -> str:
    """The result of one seed as one line of text."""
    faults = sum(one.faults.values())
    verdict = f"{len(one.anomalies)} ANOMALIES" if one.anomalies else "ok"
    return (
        f"seed {one.seed:5d} x{one.replicas}  "
        f"{one.simulated_s:6.1f} s simulated in {one.processor_s:5.1f} s  "
        f"{one.acked:5d} acked  {one.read:6d} read  {one.commits:5d} commits  "
        f"{faults:4d} faults  {one.trace}  {verdict}"
    )


def say(text: str) -> None:
    """Print `text` immediately, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
