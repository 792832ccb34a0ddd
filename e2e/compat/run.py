"""`python -m e2e.compat`: runs Kafka's tests, prints what became of them, and compares with the
list.

Results are written as they come, so a run that was ended continues where it was.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.table import Table

from e2e.cluster import layout
from e2e.cluster.console import Refused
from e2e.compat import lists
from e2e.compat.brokers import Brokers
from e2e.compat.lists import FAILED, PASSED, class_of
from e2e.compat.running import (
    FINISHED,
    SUITES,
    TEST_LIMIT_S,
    Result,
    Runner,
    classes,
    read,
    simple,
)

DIRECTORY = layout.CHECKOUT / ".compat"
BATCH = 12
"""How many test classes one JVM runs. The next JVM starts without the threads and memory that they
leave behind."""
WIDTH = 150


def main() -> int:
    """Run the chosen classes. Returns 1 if a test failed that the list has as passed, else 0."""
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    DIRECTORY.mkdir(exist_ok=True)
    results = DIRECTORY / "results.jsonl"
    if options.fresh:
        results.unlink(missing_ok=True)
    try:
        chosen = [
            one
            for suite in SUITES
            for one in classes(suite)
            if not options.only or any(fnmatchcase(simple(one), glob) for glob in options.only)
        ]
        with Brokers(DIRECTORY) as brokers:
            runner = Runner(
                brokers.address, DIRECTORY, lists.reasons(lists.SKIPS), options.log, options.limit
            )
            found = run(runner, brokers, chosen, results, console)
    except Refused as refused:
        console.print(f"compat: {refused}", markup=False)
        return 2
    console.print(table(found))
    if brokers.left_out:
        left_out = ", ".join(sorted(brokers.left_out))
        console.print(f"properties that Chiplog does not have: {left_out}", markup=False)
    known = lists.listed()
    if options.write:
        others = {test: one for test, one in known.items() if class_of(test) not in names(chosen)}
        lists.write({**others, **{one.test: one for one in lists.explained(found)}})
    return report(known, found, console)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="e2e.compat", description=__doc__)
    parser.add_argument("only", nargs="*", help="patterns of class names (all classes if none)")
    parser.add_argument("--fresh", action="store_true", help="forget an earlier run's results")
    parser.add_argument("--write", action="store_true", help="write the results into the list")
    parser.add_argument("--log", default="error", help="from which level on Kafka's log is kept")
    parser.add_argument(
        "--limit", type=int, default=TEST_LIMIT_S, help="how many seconds a test may take"
    )
    return parser.parse_args()


def names(chosen: Iterable[str]) -> set[str]:
    """Class names without packages."""
    return {simple(one) for one in chosen}


def run(
    runner: Runner, brokers: Brokers, chosen: Sequence[str], results: Path, console: Console
) -> list[Result]:
    """Run the classes that are not finished yet; returns the results of all chosen ones.

    A test that fails but is listed as passed is run once more: the machine may have been busy.
    """
    finished = {one.test for one in read(results) if one.outcome == FINISHED}
    passing = {one.test for one in lists.listed().values() if one.outcome == PASSED}
    left = [one for one in chosen if simple(one) not in finished]
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        runner.run(batch, results)
        again = {
            one.test
            for one in last(read(results), names(batch))
            if one.outcome == FAILED and one.test in passing
        }
        if again:
            retry(runner, batch, results, again)
        brokers.end_all()
        for name in map(simple, batch):
            counts = Counter(one.outcome for one in last(read(results), {name}))
            console.print(f"{name}: {in_words(counts)}", markup=False)
    return last(read(results), names(chosen))


def retry(runner: Runner, batch: Sequence[str], results: Path, tests: Collection[str]) -> None:
    """Run tests once more; what they then do counts."""
    second = results.with_name("again.jsonl")
    second.unlink(missing_ok=True)
    runner.run([one for one in batch if simple(one) in set(map(class_of, tests))], second, tests)
    with results.open("a") as file:
        file.write(second.read_text() if second.exists() else "")


def last(results: Iterable[Result], of_classes: Collection[str]) -> list[Result]:
    """The last result of each test of these classes."""
    found = {
        one.test: one
        for one in results
        if class_of(one.test) in of_classes and one.outcome != FINISHED
    }
    return list(found.values())


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[one]} {one}" for one in lists.OUTCOMES if one in counts)


def table(results: Iterable[Result]) -> Table:
    """Passed, failed and skipped tests of each class, and of all."""
    counts = lists.counts(results)
    counts["all"] = sum(counts.values(), Counter())
    shown = Table("class", *lists.OUTCOMES)
    for name, of in counts.items():
        shown.add_row(name, *(str(of[outcome]) for outcome in lists.OUTCOMES))
    return shown


def report(known: Mapping[str, Result], found: Iterable[Result], console: Console) -> int:
    """Print each failure and what differs from the list; returns the exit status."""
    causes = lists.reasons(lists.CAUSES)
    broken = unlisted = 0
    for one in found:
        before = known[one.test].outcome if one.test in known else ""
        unlisted += not before
        if one.outcome == FAILED:
            is_new = before == PASSED
            broken += is_new
            text = f"listed as {before}" if is_new else lists.why(one, causes)
            console.print(f"failed: {one.test}: {text}", markup=False)
            if is_new or text == lists.UNKNOWN_CAUSE:
                console.print(f"    {one.why[:400]}", markup=False)
        elif before not in {"", one.outcome}:
            console.print(f"{one.outcome}: {one.test}: listed as {before}", markup=False)
    if unlisted:
        console.print(f"compat: {unlisted} tests are not in the list", markup=False)
    if broken:
        console.print(f"compat: {broken} tests failed that are listed as passed", markup=False)
    return 1 if broken else 0
