"""What the demo says when something is not as it has to be: expected, found, and what to do.

A working cluster's answers are never wrong for long: those that do not fit are asked for again
until the limit, which is there so that nothing hangs and is generous enough for a loaded machine.
"""

import subprocess
import time
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaException

from e2e.clients.by_kafka_python import KafkaError
from e2e.cluster.shell import CommandFailed

T = TypeVar("T")

LIMIT_S: Final = 300.0
EVERY_S: Final = 0.5

AGAIN: Final = (
    "see what `kubectl -n demo get pods,brokerclusters,topics` says (`make tools` fetches kubectl, "
    "`make cluster-up` prints its KUBECONFIG), then run `make demo` again: it continues with the "
    "existing cluster. `.venv/bin/python -m e2e.cluster down --forget` begins with nothing"
)

NOT_YET: Final = (
    *(AssertionError, CommandFailed, KafkaError, KafkaException, OSError, KeyError),
    *(ValueError, subprocess.TimeoutExpired),
)
"""What asking may raise while a cluster starts, moves a leadership or is busy."""


class Broken(Exception):  # noqa: N818 - read as "Broken: expected … found …"
    """Something is not as it has to be. The text names what was expected, found, and the remedy."""

    def __init__(self, *, expected: str, found: object, remedy: str = AGAIN) -> None:
        super().__init__(f"expected: {expected}\nfound:    {found}\nto do:    {remedy}")


def check(holds: bool, *, expected: str, found: object, remedy: str = AGAIN) -> None:
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(expected=expected, found=found, remedy=remedy)


def until(
    expected: str,
    ask: Callable[[], T],
    *,
    limit_s: float = LIMIT_S,
    every_s: float = EVERY_S,
    remedy: str = AGAIN,
) -> T:
    """What `ask` returns as soon as it raises nothing of `NOT_YET`.

    Raises `Broken` after `limit_s`, with what the last call found; whatever else `ask` raises
    ends the wait.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        try:
            return ask()
        except NOT_YET as failed:
            if time.monotonic() > deadline_s:
                found = f"{reason(failed)} (after {limit_s:.0f} s)"
                raise Broken(expected=expected, found=found, remedy=remedy) from failed
        time.sleep(every_s)


def reason(error: BaseException) -> str:
    """An error in words, also where it has none itself."""
    return str(error).strip() or type(error).__name__
