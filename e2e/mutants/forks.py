"""Runs jobs in forked processes, several at the same time, each with limits.

The parent process has imported everything, so a fork needs no time to start. An endless loop is
ended by a limit of processor time, which does not depend on the load of the machine; a job that
waits forever, by the clock.
"""

import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

SIDE_BY_SIDE: Final = 2
"""Number of jobs that run at the same time."""
_POLL_EVERY_S: Final = 0.01
# The limits of short jobs; longer ones get a multiple of their usual time in addition.
_LEAST_CPU_S: Final = 3
_LEAST_WALL_S: Final = 15
_MOST_MEMORY_BYTES: Final = 6 * 2**30

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Job(Generic[Given]):
    """A function to run in a forked process, and its argument `given`; it returns text."""

    given: Given
    run: Callable[[Given], str]
    clean_s: float
    """How long it takes with the original code, in seconds; its limits follow from this."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Given]):
    """The result of a job with the argument `given`."""

    given: Given
    text: str | None
    """The returned text; None if the process ended without one: by a limit, or an exception."""


@dataclass(frozen=True, slots=True)
class _Fork(Generic[Given]):
    """A running job, its temporary directory, and the time at which it is killed."""

    job: Job[Given]
    directory: Path
    ends_s: float

    @property
    def answer(self) -> Path:
        return self.directory / "answer"


def run_all(jobs: Iterable[Job[Given]], side_by_side: int) -> Iterator[Outcome[Given]]:
    """Run the jobs, `side_by_side` at a time; yield each outcome as soon as it is there.

    Jobs that still run are killed if the caller stops iterating.
    """
    waiting, running = iter(jobs), dict[int, _Fork[Given]]()
    try:
        while True:
            while len(running) < side_by_side and (job := next(waiting, None)) is not None:
                pid, fork = _begin(job)
                running[pid] = fork
            if not running:
                return
            for pid in _ended(running):
                yield _outcome(running.pop(pid))
    finally:
        for pid, fork in running.items():
            _end(pid)
            os.waitpid(pid, 0)
            shutil.rmtree(fork.directory, ignore_errors=True)


def _begin(job: Job[Given]) -> tuple[int, _Fork[Given]]:
    """Fork a process for the job; returns its process id."""
    directory = Path(tempfile.mkdtemp(prefix="mutant-"))
    fork = _Fork(job, directory, time.monotonic() + _LEAST_WALL_S + 20 * job.clean_s)
    pid = os.fork()
    if pid == 0:
        _run_child(fork)
    return pid, fork


def _run_child(fork: _Fork[Given]) -> None:
    """Run the job in the child process with its limits, then exit; it never returns."""
    try:
        os.setsid()  # its own process group, which `_end` kills with all its children
        most_s = int(_LEAST_CPU_S + 10 * fork.job.clean_s)
        resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
        # pytest's tmp_path is then removed with the directory.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(fork.directory)
        with (fork.directory / "output").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        text = fork.job.run(fork.job.given)
        fork.answer.write_text(text)
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
    finally:
        os._exit(0)


def _ended(running: dict[int, _Fork[Given]]) -> list[int]:
    """Wait until some processes have ended, killing those out of time; returns their ids."""
    while True:
        ended = [pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]]
        if ended:
            return ended
        for pid, fork in running.items():
            if time.monotonic() > fork.ends_s:
                _end(pid)
        time.sleep(_POLL_EVERY_S)


def _outcome(fork: _Fork[Given]) -> Outcome[Given]:
    """Read the text of a job that ended, and remove its directory."""
    text = fork.answer.read_text() if fork.answer.exists() else None
    shutil.rmtree(fork.directory, ignore_errors=True)
    return Outcome(fork.job.given, text)


def _end(pid: int) -> None:
    """Kill a job's process and all processes that it started."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
