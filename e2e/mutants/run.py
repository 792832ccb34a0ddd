"""`make mutants`: mutate the modules with the most important rules, and print the survivors.

A survivor is a mutant that no test notices. The exit status is 1 if a survivor has no entry in
`reasons.toml`, or too few mutants of a room were killed.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from e2e.mutants import reasons, scores
from e2e.mutants.kept import DIRECTORY, Found, Kept
from e2e.mutants.mutations import Mutant, mutants_of
from e2e.mutants.rooms import ROOMS, ROOT, Room, named
from e2e.mutants.scores import Score

_SAVE_EVERY: Final = 20
_DONE: Final = "done"


def main(given: Sequence[str] | None = None) -> int:
    """Run the rooms; print survivors without a reason, unused reasons, and a table of scores."""
    parser = argparse.ArgumentParser(prog="python -m e2e.mutants", description=__doc__)
    parser.add_argument(
        "--room", action="append", default=[], help="only this room; may be given several times"
    )
    parser.add_argument(
        "--no-seeds", action="store_true", help="unit tests only, no simulations of survivors"
    )
    parser.add_argument(
        "--survivors", action="store_true", help="also print survivors that have a reason"
    )
    options = parser.parse_args(given)
    chosen = [named(name) for name in options.room] or list(ROOMS)
    console, failed = Console(emoji=False, highlight=False, markup=False), []
    found: dict[str, Score] = {}
    why = reasons.read()
    columns = TextColumn("{task.description:34}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        for room in chosen:
            survivors, found[room.name] = _run(room, progress, with_seeds=not options.no_seeds)
            # Written after each room: another process may run other rooms at the same time.
            scores.write(scores.read() | found, [one.name for one in ROOMS])
            unexplained = reasons.without_reason(room.name, survivors, why)
            for one in survivors if options.survivors else unexplained:
                progress.console.print(_line(room, one), soft_wrap=True)
            for idle in reasons.idle(room.name, survivors, why):
                change = f"{idle.before}  ->  {idle.after}"
                text = f"{idle.function}: remove this reason, no such mutant survives: {change}"
                progress.console.print(text, soft_wrap=True)
            if unexplained or not found[room.name].is_enough:
                failed.append(room.name)
    _print_table(console, [found[room.name] for room in chosen])
    if failed:
        least = f"{scores.LEAST_PERCENT:.0f} %"
        print(f"survivors without a reason, or a score below {least}: {', '.join(failed)}")
    return 1 if failed else 0


def _run(room: Room, progress: Progress, *, with_seeds: bool) -> tuple[list[Mutant], Score]:
    """Try the mutants of a room that have no stored result; returns its survivors and score."""
    task = progress.add_task(room.name, total=None)
    mutants, kept = mutants_of(room.source), Kept(room)
    by_key = {one.key: one for one in mutants}
    undecided = kept.undecided(mutants)
    progress.update(task, total=len(mutants), completed=len(mutants) - len(undecided))
    if undecided:
        _judge_and_keep("tests", undecided, kept, lambda: progress.advance(task))
    unseen = [one for one in kept.survivors(mutants) if not kept.found[one.key].seeds_tried]
    if with_seeds and room.mix and unseen:
        progress.update(task, description=f"{room.name}: seeds", total=len(unseen), completed=0)
        _judge_and_keep("seeds", unseen, kept, lambda: progress.advance(task))
    progress.remove_task(task)
    found = [kept.found[key] for key in by_key]
    by_tests = sum(bool(one.by_test) for one in found)
    by_seeds = sum(one.is_killed for one in found) - by_tests
    return kept.survivors(mutants), Score(room.name, len(mutants), by_tests, by_seeds)


def _judge_and_keep(
    judge: str, mutants: list[Mutant], kept: Kept, advance: Callable[[], None]
) -> None:
    """Try mutants with `judge`, which is "tests" or "seeds", and store their results."""
    try:
        for count, (key, by) in enumerate(judged(kept.room, judge, mutants), start=1):
            if judge == "tests":
                kept.found[key] = Found(by_test=by)
            else:
                kept.found[key] = Found(by_seed=by, seeds_tried=True)
            advance()
            if count % _SAVE_EVERY == 0:
                kept.save()
    finally:
        kept.save()


def judged(room: Room, judge: str, mutants: list[Mutant]) -> Iterator[tuple[str, str]]:
    """Yield (mutant's key, test or seed that noticed it, "" for none) as they are decided.

    `judge` is "tests" or "seeds". It runs in a separate process, so that it leaves nothing behind
    in this one; if it fails, this process exits.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_judged, args=(room, judge, mutants, theirs))
    process.start()
    theirs.close()
    try:
        yield from iter(ours.recv, _DONE)
    except EOFError:
        log = _log(room, judge).relative_to(ROOT)
        sys.exit(f"room {room.name}: its {judge} cannot be run against mutants, see {log}")
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()


def _judged(room: Room, judge: str, mutants: list[Mutant], to: "Connection[Any, Any]") -> None:
    """Run the judge in the separate process: results go to the pipe `to`, its output to a file."""
    DIRECTORY.mkdir(exist_ok=True)
    with _log(room, judge).open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    _judge_of(judge)(room, mutants, lambda one, by: to.send((one.key, by)))
    to.send(_DONE)


def _judge_of(
    judge: str,
) -> Callable[[Room, Sequence[Mutant], Callable[[Mutant, str], None]], None]:
    """The function that tries mutants, for "seeds" or "tests".

    Its module is imported only when needed: the simulator is large, and pytest's plugins must be
    loaded before the modules that they instrument.
    """
    if judge == "seeds":
        from e2e.mutants import seeds  # noqa: PLC0415

        return seeds.try_all
    from e2e.mutants import unit_tests  # noqa: PLC0415

    return unit_tests.try_all


def _log(room: Room, judge: str) -> Path:
    return DIRECTORY / f"{room.name}-{judge}.log"


def _line(room: Room, one: Mutant) -> str:
    """A mutant as text: its place, and the lines before and after the change."""
    return f"{room.path}:{one.lines.start}: {one.function}\n  - {one.before}\n  + {one.after}"


def _print_table(console: Console, found: list[Score]) -> None:
    table = Table(*scores.HEADER)
    for one in found:
        table.add_row(*scores.row(one))
    if len(found) > 1:
        table.add_section()
        table.add_row(*scores.row(scores.total(found)))
    console.print(table)
