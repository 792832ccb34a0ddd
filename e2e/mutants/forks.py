"""Processes that are forked for one job each, side by side, each with a limit.

The parent has imported everything once, so a job costs what it runs. A job in an endless loop is
ended by what it used of the processor, which a busy machine does not change; one that waits for
ever by the clock.
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
_POLL_EVERY_S: Final = 0.01
_LEAST_CPU_S: Final = 3
_LEAST_WALL_S: Final = 15
_MOST_MEMORY_BYTES: Final = 6 * 2**30

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Job(Generic[Given]):
    """Something to do in a process of its own; what it returns is text."""

    given: Given
    run: Callable[[Given], str]
    clean_s: float
    """How long it takes where nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Given]):
    """What came of a job."""

    given: Given
    text: str | None
    """What it returned; None where it was ended or ended itself."""


@dataclass(frozen=True, slots=True)
class _Fork(Generic[Given]):
    job: Job[Given]
    directory: Path
    ends_s: float

    @property
    def answer(self) -> Path:
        return self.directory / "answer"


def run_all(jobs: Iterable[Job[Given]], side_by_side: int) -> Iterator[Outcome[Given]]:
    """Outcomes as they come, in any order."""
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
    directory = Path(tempfile.mkdtemp(prefix="mutant-"))
    fork = _Fork(job, directory, time.monotonic() + _LEAST_WALL_S + 20 * job.clean_s)
    pid = os.fork()
    if pid == 0:
        _run_child(fork)
    return pid, fork


def _run_child(fork: _Fork[Given]) -> None:
    """What the child process does; it never returns."""
    try:
        os.setsid()
        most_s = int(_LEAST_CPU_S + 10 * fork.job.clean_s)
        resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
        # Where pytest's tmp_path is.
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
    while True:
        ended = [pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]]
        if ended:
            return ended
        for pid, fork in running.items():
            if time.monotonic() > fork.ends_s:
                _end(pid)
        time.sleep(_POLL_EVERY_S)


def _outcome(fork: _Fork[Given]) -> Outcome[Given]:
    text = fork.answer.read_text() if fork.answer.exists() else None
    shutil.rmtree(fork.directory, ignore_errors=True)
    return Outcome(fork.job.given, text)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
