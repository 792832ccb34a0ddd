"""Search for a seed that finds each planted bug: `python -m e2e.sim.mutants`.

A seed finds a bug if it has one of the expected anomalies with the bug, and no anomaly without it.
"""

import argparse
import concurrent.futures
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from e2e.sim.mutants import MUTANTS, Mutant
from e2e.sim.seed import Result, quiet, run_seed

SEEN: Final = Path(__file__).parent / "seen.json"
"""JSON file: name of a planted bug -> a seed that finds it."""
MOST_SEEDS: Final = 300


@dataclass(frozen=True, slots=True)
class Sighting:
    """The result of the search for one bug."""

    name: str
    seed: int
    """The first seed that finds the bug; 0 if none does."""
    tried: int
    """Number of seeds that were tried."""
    anomalies: tuple[str, ...]
    """Names of the expected anomalies that the seed has."""
    simulated_s: float
    real_s: float


def stored() -> dict[str, int]:
    """Name of a bug -> the seed that found it in the last search with `--store`."""
    found: dict[str, int] = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    return found


def named(name: str) -> Mutant:
    """The planted bug of this name."""
    return next(one for one in MUTANTS if one.name == name)


def shown(mutant: Mutant, seed: int) -> tuple[tuple[str, ...], float]:
    """Simulate a seed with the bug: (expected anomalies that it has, simulated seconds)."""
    with mutant.planted():
        result = run_seed(seed, mutant.mix)
    return signs(mutant, result), result.simulated_s


def signs(mutant: Mutant, result: Result) -> tuple[str, ...]:
    """Names of the anomalies and clients' errors in a result that the bug is expected to cause."""
    names = {one.name for one in result.anomalies} | result.errors.keys()
    return tuple(sorted(names & mutant.shows))


def is_sound(mutant: Mutant, seed: int) -> bool:
    """Whether the seed has no anomalies, and none of the expected errors, without the bug."""
    result = run_seed(seed, mutant.mix)
    return not result.anomalies and not signs(mutant, result)


def search(name: str, seeds: int) -> Sighting:
    """Try up to `seeds` seeds, from 1 on, until one finds the bug of this name."""
    mutant, began_s = named(name), time.perf_counter()
    so_far = Sighting(name, 0, 0, (), 0.0, 0.0)
    for seed in range(1, seeds + 1):
        anomalies, simulated_s = shown(mutant, seed)
        so_far = replace(
            so_far,
            tried=seed,
            simulated_s=so_far.simulated_s + simulated_s,
            real_s=time.perf_counter() - began_s,
        )
        if anomalies and is_sound(mutant, seed):
            return replace(so_far, seed=seed, anomalies=anomalies)
    return so_far


def is_stale(name: str) -> bool:
    """Whether the stored seed of this bug no longer finds it."""
    quiet()
    return not shown(named(name), stored()[name])[0]


def sightings(names: Sequence[str], seeds: int, jobs: int) -> Iterator[Sighting]:
    """Search for bugs in `jobs` processes; yield each result as soon as it is there."""
    if jobs == 1:
        quiet()
        yield from (search(name, seeds) for name in names)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        begun = [pool.submit(search, name, seeds) for name in names]
        for done in concurrent.futures.as_completed(begun):
            yield done.result()


def main(given: Sequence[str] | None = None) -> int:
    """Search for the chosen bugs, print a table; the exit status is 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sim.mutants", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=MOST_SEEDS, metavar="N", help="the most seeds to try per bug"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="bugs searched at the same time"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only bugs whose name contains this text"
    )
    parser.add_argument("--missing", action="store_true", help="only bugs without a stored seed")
    parser.add_argument(
        "--stale",
        action="store_true",
        help="only bugs without a stored seed, or whose stored seed no longer finds them",
    )
    parser.add_argument(
        "--store", action="store_true", help="store the seeds in seen.json, for the tests"
    )
    options = parser.parse_args(given)
    names = [one.name for one in MUTANTS if options.only in one.name]
    if options.missing or options.stale:
        names = [one for one in names if one not in stored() or (options.stale and is_stale(one))]
    done = []
    say(f"{'planted bug':72s}{'seeds':>6s}{'simulated s':>13s}{'real s':>8s}  shows")
    for one in sightings(names, options.seeds, options.jobs):
        done.append(one)
        say(line(one))
        if options.store and one.seed:
            keep(one)
    missed = [one.name for one in done if not one.seed]
    say(f"\n{len(done) - len(missed)} of {len(done)} planted bugs seen")
    for name in missed:
        say(f"    not seen within {options.seeds} seeds: {name}")
    return 1 if missed else 0


def keep(one: Sighting) -> None:
    """Store the seed of a bug in `SEEN`, and remove entries of bugs that no longer exist."""
    known = {mutant.name for mutant in MUTANTS}
    table = {name: seed for name, seed in stored().items() if name in known} | {one.name: one.seed}
    SEEN.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def line(one: Sighting) -> str:
    """The result for one bug as a row of the table."""
    seen = ", ".join(one.anomalies) if one.seed else "NOT SEEN"
    return f"{one.name:72s}{one.tried:6d}{one.simulated_s:13.1f}{one.real_s:8.1f}  {seen}"


def say(text: str) -> None:
    """Print `text` immediately, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
