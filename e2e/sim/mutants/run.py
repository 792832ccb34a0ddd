"""Every planted bug, with the seeds needed to see it: `python -m e2e.sim.mutants`.

A bug is seen where a seed shows what it is expected to show, and nothing of that without it, nor
anything that is never right.
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
"""Name of a bug -> a seed that shows it."""
MOST_SEEDS: Final = 300


@dataclass(frozen=True, slots=True)
class Sighting:
    """The result of the search for one bug."""

    name: str
    seed: int
    """The first that shows it; 0 where none of those tried does."""
    tried: int
    anomalies: tuple[str, ...]
    """Their names, those that the bug is expected to show."""
    simulated_s: float
    real_s: float


def stored() -> dict[str, int]:
    """The seeds that showed the bugs in the last search."""
    found: dict[str, int] = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    return found


def named(name: str) -> Mutant:
    """The bug of that name."""
    return next(one for one in MUTANTS if one.name == name)


def shown(mutant: Mutant, seed: int) -> tuple[tuple[str, ...], float]:
    """What a seed shows of what is expected, and how long it simulated."""
    with mutant.planted():
        result = run_seed(seed, mutant.mix)
    return signs(mutant, result), result.simulated_s


def signs(mutant: Mutant, result: Result) -> tuple[str, ...]:
    """Anomalies and clients' errors that the bug is expected to show."""
    names = {one.name for one in result.anomalies} | result.errors.keys()
    return tuple(sorted(names & mutant.shows))


def is_sound(mutant: Mutant, seed: int) -> bool:
    """Whether the seed shows nothing where the bug is not planted."""
    result = run_seed(seed, mutant.mix)
    return not result.anomalies and not signs(mutant, result)


def search(name: str, seeds: int) -> Sighting:
    """Try seeds from 1 on, up to the first that shows anomalies with the bug and none without
    it."""
    mutant, began_s = named(name), time.perf_counter()
    nothing = Sighting(name, 0, 0, (), 0.0, 0.0)
    for seed in range(1, seeds + 1):
        anomalies, simulated_s = shown(mutant, seed)
        nothing = replace(
            nothing,
            tried=seed,
            simulated_s=nothing.simulated_s + simulated_s,
            real_s=time.perf_counter() - began_s,
        )
        if anomalies and is_sound(mutant, seed):
            return replace(nothing, seed=seed, anomalies=anomalies)
    return nothing


def is_stale(name: str) -> bool:
    """Whether the seed that is kept of it does not show it any more."""
    quiet()
    return not shown(named(name), stored()[name])[0]


def sightings(names: Sequence[str], seeds: int, jobs: int) -> Iterator[Sighting]:
    """One after another, as they are done."""
    if jobs == 1:
        quiet()
        yield from (search(name, seeds) for name in names)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        begun = [pool.submit(search, name, seeds) for name in names]
        for done in concurrent.futures.as_completed(begun):
            yield done.result()


def main(given: Sequence[str] | None = None) -> int:
    """Search for them; the exit status is 1 where one was not seen."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sim.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, metavar="N", help="at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", metavar="WORDS", help="bugs with these words")
    parser.add_argument("--missing", action="store_true", help="bugs that no seed is kept for")
    parser.add_argument("--stale", action="store_true", help="those, and whose seed shows nothing")
    parser.add_argument("--store", action="store_true", help="keep the seeds for the tests")
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
    """Write down the seed, those of bugs that are no more away."""
    known = {mutant.name for mutant in MUTANTS}
    table = {name: seed for name, seed in stored().items() if name in known} | {one.name: one.seed}
    SEEN.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def line(one: Sighting) -> str:
    seen = ", ".join(one.anomalies) if one.seed else "NOT SEEN"
    return f"{one.name:72s}{one.tried:6d}{one.simulated_s:13.1f}{one.real_s:8.1f}  {seen}"


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
