"""Runs a room's unit tests against its mutants.

One pytest process collects the tests and imports what they need. A first fork of it runs all tests
with the original code, to measure which lines each test runs and how long it takes. Then one fork
for each mutant runs the tests that cover its lines, until one fails.
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
"""Stored instead of a test's name if a mutant's process was ended by a limit."""
BY_IMPORT: Final = "the import of the module"
"""Stored instead of a test's name if the mutated module cannot be imported."""
_CLEAN_S: Final = 600
"""Expected time of the run with the original code; the limit is a multiple of it."""
_OPTIONS: Final = (
    *("-qq", "--capture=no", "-p", "no:cacheprovider"),
    # pytest warns that its plugins were already imported.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class UnfitError(Exception):
    """The room's tests cannot be used against mutants: they fail with the original code."""


@dataclass(frozen=True, slots=True)
class _Clean:
    """A test's processor time with the original code, and the lines of the room that it runs."""

    seconds: float
    lines: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A mutant, and the tests to run against it in this order."""

    mutant: Mutant
    tests: tuple[str, ...]


class Rounds:
    """A pytest plugin that replaces pytest's loop over the tests."""

    def __init__(
        self, room: Room, mutants: Sequence[Mutant], said: Callable[[Mutant, str], None]
    ) -> None:
        """`room` is the module whose `mutants` are tested. `said` is called with each mutant and
        the test that noticed it, "" for none."""
        self.room = room
        self.mutants = mutants
        self._report = said
        self._items: dict[str, pytest.Item] = {}
        self._kills: dict[str, int] = {}  # test -> how many mutants it noticed
        self._functions: Functions = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let hypothesis use the same examples for every mutant, and store none."""
        from hypothesis import settings  # noqa: PLC0415 - its own plugin wants to be the first

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests against all mutants; True tells pytest that its own loop is not needed."""
        if session.testsfailed:
            raise UnfitError(f"room {self.room.name}: pytest cannot collect its tests")
        self._items = {item.nodeid: item for item in session.items}
        self._functions = functions_of(importlib.import_module(self.room.module))
        clean = self._clean_run()
        for outcome in run_all(self._jobs(clean), SIDE_BY_SIDE):
            trial, by = outcome.given, outcome.text if outcome.text is not None else BY_LIMIT
            self._kills[by] = self._kills.get(by, 0) + 1
            self._report(trial.mutant, by)
        return True

    def _clean_run(self) -> dict[str, _Clean]:
        """Run all tests with the original code; returns test name -> its time and lines.

        They run in a fork, so that they leave nothing behind in this process.
        """
        (outcome,) = run_all([Job(None, self._measured, _CLEAN_S)], 1)
        if outcome.text is None:
            raise UnfitError(
                f"room {self.room.name}: its tests did not end in time with the original code"
            )
        found = json.loads(outcome.text)
        if isinstance(found, str):
            raise UnfitError(f"room {self.room.name}: {found} fails with the original code")
        return {name: _Clean(seconds, frozenset(lines)) for name, (seconds, lines) in found.items()}

    def _measured(self, _: None) -> str:
        """Run all tests and measure them, in the fork of `_clean_run`.

        Returns JSON: test name -> (processor seconds, lines), or the name of a test that failed.
        """
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
        """A job for each mutant, whose limit follows from the tests' time with original code."""
        for mutant in self.mutants:
            tests = self._covering(mutant, clean)
            clean_s = sum(clean[name].seconds for name in tests)
            yield Job(_Trial(mutant, tests), self._try, clean_s)

    def _covering(self, mutant: Mutant, clean: dict[str, _Clean]) -> tuple[str, ...]:
        """Names of the tests that run the mutant's lines, those that noticed most mutants first.

        Of tests that noticed equally many, the quickest is first. All tests of the function are
        taken if the lines are not enough: coverage may count an expression over several lines under
        another line, and a parameter's default value under none.
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
        """Run the tests with the mutant, in a fork; returns the test that failed, "" for none."""
        module = importlib.import_module(self.room.module)
        try:
            swap(trial.mutant, module, self._functions)
        except NotSwappedError:
            return BY_IMPORT
        return self._first_failing(trial.tests)

    def _first_failing(self, names: Sequence[str]) -> str:
        """Run these tests in order; returns the name of the first that fails, "" if none does."""
        items = [self._items[name] for name in names]
        for item, after in zip(items, [*items[1:], None], strict=True):
            failed = item.session.testsfailed
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if item.session.testsfailed > failed:
                return item.nodeid
        return ""


def try_all(room: Room, mutants: Sequence[Mutant], said: Callable[[Mutant, str], None]) -> None:
    """Call `said` with each mutant and the name of the test that noticed it, "" for none.

    Raises `UnfitError` if the room's tests fail with the original code.
    """
    arguments = [*_OPTIONS, f"--rootdir={ROOT}", *(str(ROOT / one) for one in room.tests)]
    status = pytest.main(arguments, plugins=[Rounds(room, mutants, said)])
    if status != pytest.ExitCode.OK:
        raise UnfitError(f"room {room.name}: pytest ended with exit status {status}")


def _processor_s() -> float:
    """Processor time that this process has used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
