"""A room's unit tests against its mutants.

One pytest collects the tests and imports what they need. Then, in forks of it: all of them once
with sound code, to see which lines each runs and how long it takes; and for each mutant those that
run its lines, until one fails.
"""

import importlib
import json
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import coverage
import pytest

from e2e.mutants.forks import SIDE_BY_SIDE, Job, run_all
from e2e.mutants.mutations import Mutant
from e2e.mutants.rooms import ROOT, Room
from e2e.mutants.swap import Functions, NotSwappedError, functions_of, swap

BY_LIMIT: Final = "the limit of time or memory"
BY_IMPORT: Final = "the import of the module"
_CLEAN_S: Final = 600
_OPTIONS: Final = (
    *("-qq", "--capture=no", "-p", "no:cacheprovider"),
    # Of its own plugins, where somebody has imported them before.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class UnfitError(Exception):
    """The room's tests cannot judge mutants."""


@dataclass(frozen=True, slots=True)
class _Clean:
    """One test with sound code."""

    seconds: float
    lines: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Trial:
    mutant: Mutant
    tests: tuple[str, ...]


class Rounds:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(
        self, room: Room, mutants: Sequence[Mutant], said: Callable[[Mutant, str], None]
    ) -> None:
        self.room = room
        self.mutants = mutants
        self._said = said
        self._items: dict[str, pytest.Item] = {}
        self._kills: dict[str, int] = {}
        self._functions: Functions = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """The same examples for every mutant, and none is remembered."""
        from hypothesis import settings  # noqa: PLC0415 - its own plugin wants to be the first

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise UnfitError(f"{self.room.name}: its tests cannot be collected")
        self._items = {item.nodeid: item for item in session.items}
        self._functions = functions_of(importlib.import_module(self.room.module))
        clean = self._clean_run()
        for outcome in run_all(self._jobs(clean), SIDE_BY_SIDE):
            trial, by = outcome.given, outcome.text if outcome.text is not None else BY_LIMIT
            self._kills[by] = self._kills.get(by, 0) + 1
            self._said(trial.mutant, by)
        return True

    def _clean_run(self) -> dict[str, _Clean]:
        """Run the tests without a mutant, in a fork, so that what they leave behind in the process
        is lost with it."""
        (outcome,) = run_all([Job(None, self._measured, _CLEAN_S)], 1)
        if outcome.text is None:
            raise UnfitError(f"{self.room.name}: the tests did not end with sound code")
        found = json.loads(outcome.text)
        if isinstance(found, str):
            raise UnfitError(f"{self.room.name}: {found} fails with sound code")
        return {name: _Clean(seconds, frozenset(lines)) for name, (seconds, lines) in found.items()}

    def _measured(self, _: None) -> str:
        path = str(ROOT / self.room.path)
        measuring = coverage.Coverage(data_file=None, include=[path], config_file=False)
        seconds: dict[str, float] = {}
        measuring.start()
        for name in self._items:
            measuring.switch_context(name)
            began_s = _processor_s()
            if self._first_failing([name]):
                return json.dumps(name)
            seconds[name] = _processor_s() - began_s
        measuring.stop()
        contexts = measuring.get_data().contexts_by_lineno(path)
        lines: dict[str, list[int]] = {name: [] for name in self._items}
        for line, names in contexts.items():
            for name in names:
                lines.get(name, []).append(line)
        return json.dumps({name: (seconds[name], lines[name]) for name in self._items})

    def _jobs(self, clean: dict[str, _Clean]) -> Iterable[Job[_Trial]]:
        for mutant in self.mutants:
            tests = self._covering(mutant, clean)
            clean_s = sum(clean[name].seconds for name in tests)
            yield Job(_Trial(mutant, tests), self._try, clean_s)

    def _covering(self, mutant: Mutant, clean: dict[str, _Clean]) -> tuple[str, ...]:
        """Those that run its lines; first those that ended many mutants, then the quick ones.

        An expression over several lines may run under another line than its own, a parameter's
        default under none: then all that run the function.
        """
        found: list[str] = []
        for lines in (mutant.lines, mutant.function_lines):
            found = [name for name, one in clean.items() if not one.lines.isdisjoint(lines)]
            if found and not mutant.of_default:
                break
        return tuple(
            sorted(found, key=lambda name: (-self._kills.get(name, 0), clean[name].seconds))
        )

    def _try(self, trial: _Trial) -> str:
        module = importlib.import_module(self.room.module)
        try:
            swap(trial.mutant, module, self._functions)
        except NotSwappedError:
            return BY_IMPORT
        return self._first_failing(trial.tests)

    def _first_failing(self, names: Sequence[str]) -> str:
        items = [self._items[name] for name in names]
        for item, after in zip(items, [*items[1:], None], strict=True):
            failed = item.session.testsfailed
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if item.session.testsfailed > failed:
                return item.nodeid
        return ""


def try_all(room: Room, mutants: Sequence[Mutant], said: Callable[[Mutant, str], None]) -> None:
    """Say of each mutant which test noticed it; "" where none did.

    An `UnfitError` where the room's tests cannot judge.
    """
    arguments = [*_OPTIONS, f"--rootdir={ROOT}", *(str(ROOT / one) for one in room.tests)]
    status = pytest.main(arguments, plugins=[Rounds(room, mutants, said)])
    if status != pytest.ExitCode.OK:
        raise UnfitError(f"{room.name}: pytest ended with {status}")


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
