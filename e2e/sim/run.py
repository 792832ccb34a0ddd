"""Seeds on all processors, how far they are, a table at the end. Those that fail are kept."""

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
"""So long faults go on in one run of consumer groups only."""
Run = tuple[int, Mix]
"""A seed and what goes wrong in it."""


def kept_seeds() -> list[Run]:
    """Those that failed once, each with the mix that it had then."""
    stored = [json.loads(one.read_text()) for one in sorted(KEPT.glob("*.json"))]
    return [(int(one["seed"]), mix_from(one["mix"])) for one in stored]


def results(runs: Sequence[Run], jobs: int) -> Iterator[Result]:
    """One after another, as they are done."""
    if jobs == 1:
        quiet()
        yield from (ended(*one) for one in runs)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        begun = [pool.submit(ended, *one) for one in runs]
        for done in concurrent.futures.as_completed(begun):
            yield done.result()


def ended(seed: int, mix: Mix) -> Result:
    """What came of a seed. One in which the simulator itself fails does not end the others."""
    try:
        return run_seed(seed, mix)
    except Exception as error:  # noqa: BLE001 - it is the result
        what = "".join(traceback.format_exception(error)[-3:])
        anomalies = [Anomaly("not-finished", "", what)]
        return Result(seed=seed, mix=mix, replicas=mix.replicas, anomalies=anomalies)


def options_of(given: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="SEED")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replicas", type=int, help="of each partition; else the seed says")
    parser.add_argument(
        "--group-hours",
        type=float,
        default=0.0,
        metavar="HOURS",
        help="so many simulated hours of consumer groups only, in place of --seeds",
    )
    parser.add_argument("--kept", action="store_true", help="the seeds that failed once, too")
    parser.add_argument("--no-keep", action="store_true", help="write no file for a failing seed")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run seeds; the exit status is 1 where anything was wrong."""
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
            of = "groups" if options.group_hours else str(one.replicas)
            (KEPT / f"{of}-{one.seed}.json").write_text(one.to_json())
    say(table(done))
    return 1 if any(one.anomalies for one in done) else 0


def chosen(options: argparse.Namespace) -> list[Run]:
    """The seeds that were asked for."""
    first: int = options.first
    if options.group_hours:
        seeds = range(first, first + math.ceil(options.group_hours * 3600 / GROUPS_S))
        return [(seed, mix_of_groups(seed, GROUPS_S)) for seed in seeds]
    seeds = range(first, first + options.seeds)
    return [(seed, mix_of(seed, options.replicas or replicas_of(seed))) for seed in seeds]


def shown(console: Console, runs: Sequence[Run], jobs: int) -> Iterator[Result]:
    """The results: behind a bar on a terminal, which stops at what is wrong, else a line each."""
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
    """Of one seed."""
    faults = sum(one.faults.values())
    verdict = f"{len(one.anomalies)} ANOMALIES" if one.anomalies else "ok"
    return (
        f"seed {one.seed:5d} x{one.replicas}  "
        f"{one.simulated_s:6.1f} s simulated in {one.processor_s:5.1f} s  "
        f"{one.acked:5d} acked  {one.read:6d} read  {one.commits:5d} commits  "
        f"{faults:4d} faults  {one.trace}  {verdict}"
    )


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
