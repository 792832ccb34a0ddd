"""Seeds on all processors, a line for each, a table at the end. Those that fail are kept."""

import argparse
import concurrent.futures
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from e2e.sim.seed import Result, mix_of, quiet, run_seed

KEPT: Final = Path(__file__).parent / "seeds"


def kept_seeds() -> list[tuple[int, int]]:
    """(seed, replicas) of those that failed once; a file is called `<replicas>-<seed>.json`."""
    names = (one.stem.split("-") for one in KEPT.glob("*-*.json"))
    return sorted((int(seed), int(replicas)) for replicas, seed in names)


def results(seeds: Sequence[int], jobs: int, replicas: int = 1) -> Iterator[Result]:
    """One after another, as they are done."""
    if jobs == 1:
        quiet()
        yield from (run_one(seed, replicas) for seed in seeds)
        return
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        begun = [pool.submit(run_one, seed, replicas) for seed in seeds]
        for done in concurrent.futures.as_completed(begun):
            yield done.result()


def run_one(seed: int, replicas: int) -> Result:
    """A seed with its own mix of faults."""
    return run_seed(seed, mix_of(seed, replicas))


def main(given: Sequence[str] | None = None) -> int:
    """Run seeds; the exit status is 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m e2e.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="SEED")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replicas", type=int, default=1, help="of each partition")
    parser.add_argument("--kept", action="store_true", help="the seeds that failed once, too")
    parser.add_argument("--no-keep", action="store_true", help="write no file for a failing seed")
    options = parser.parse_args(given)
    seeds = list(range(options.first, options.first + options.seeds))
    if options.kept:
        seeds += [seed for seed, replicas in kept_seeds() if replicas == options.replicas]
    done = []
    for one in results(seeds, options.jobs, options.replicas):
        done.append(one)
        say(line(one))
        for anomaly in one.anomalies[:5]:
            say(f"    {anomaly.name} {anomaly.partition}: {anomaly.what}")
        if one.anomalies and not options.no_keep:
            KEPT.mkdir(exist_ok=True)
            (KEPT / f"{options.replicas}-{one.seed}.json").write_text(one.to_json())
    say(table(done))
    return 1 if any(one.anomalies for one in done) else 0


def line(one: Result) -> str:
    faults = sum(one.faults.values())
    verdict = f"{len(one.anomalies)} ANOMALIES" if one.anomalies else "ok"
    return (
        f"seed {one.seed:5d}  {one.simulated_s:6.1f} s simulated in {one.real_s:5.1f} s  "
        f"{one.acked:5d} acked  {one.read:6d} read  {faults:4d} faults  {one.trace}  {verdict}"
    )


def table(done: Iterable[Result]) -> str:
    """Of all seeds together."""
    all_ = list(done)
    faults: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    for one in all_:
        faults.update(one.faults)
        anomalies.update(anomaly.name for anomaly in one.anomalies)
    real_s = sum(one.real_s for one in all_)
    simulated_s = sum(one.simulated_s for one in all_)
    rows = [
        "",
        f"seeds                 {len(all_):10d}",
        f"simulated hours       {simulated_s / 3600:10.2f}",
        f"processor seconds     {real_s:10.1f}",
        f"records acknowledged  {sum(one.acked for one in all_):10d}",
        f"records read          {sum(one.read for one in all_):10d}",
        f"faults                {sum(faults.values()):10d}",
        *(f"  {name:20s}{count:10d}" for name, count in sorted(faults.items())),
        f"anomalies             {sum(anomalies.values()):10d}",
        *(f"  {name:20s}{count:10d}" for name, count in sorted(anomalies.items())),
    ]
    return "\n".join(rows)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
