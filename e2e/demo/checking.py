"""The demo's checks, and the error that says what was expected, what was found and what to do.

A check that fails is repeated until a time limit, since a working cluster may give another answer
for a moment. The limit is long enough for a busy machine.
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
    "look at `kubectl -n demo get pods,brokerclusters,topics` (`make tools` installs kubectl, "
    "`make cluster-up` prints its KUBECONFIG), then run `make demo` again: it continues with the "
    "existing cluster. To start from nothing, run `make cluster-down FORGET=1` before"
)

NOT_YET: Final = (
    *(AssertionError, CommandFailed, KafkaError, KafkaException, OSError, KeyError),
    *(ValueError, subprocess.TimeoutExpired),
)
"""Errors that a question may raise while a cluster starts, moves a leadership or is busy."""


class Broken(Exception):  # noqa: N818 - read as "Broken: expected … found …"
    """A check of the demo failed.

    The text says what was expected, what was found and what to do.
    """

    def __init__(self, *, expected: str, found: object, remedy: str = AGAIN) -> None:
        super().__init__(f"expected: {expected}\nfound:    {found}\nto do:    {remedy}")


def check(holds: bool, *, expected: str, found: object, remedy: str = AGAIN) -> None:
    """Raise `Broken` with these texts unless `holds` is true."""
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
    """Call `ask` until it raises none of `NOT_YET`, and return its result.

    Raises `Broken` after `limit_s`, with the error of the last call. Any other exception of `ask`
    is raised at once. `expected` says in the message what was waited for.
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
    """The text of an error, or the name of its class if it has no text."""
    return str(error).strip() or type(error).__name__
