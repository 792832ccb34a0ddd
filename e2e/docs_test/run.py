"""Runs the commands of a page, one after another."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from e2e.docs_test.compare import difference
from e2e.docs_test.page import Command, commands
from e2e.docs_test.shell import Shell

UNTIL_S: Final = 60.0
"""How long a command with the comment "until" is repeated."""
AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command printed, and how it ended."""

    command: Command
    printed: str
    status: int
    difference: str
    """A diff from the output on the page; empty where there is none."""

    took_s: float

    @property
    def ended_well(self) -> bool:
        """Whether its exit status is right: not 0 for a command that `fails`, else 0."""
        return (self.status != 0) == self.command.fails


def run(markdown: str, shell: Shell, until_s: float = UNTIL_S) -> Iterator[Outcome]:
    """Run the commands of a page in order; stops after one with a wrong exit status.

    A command with the comment "until" is repeated for at most `until_s`.
    """
    for command in commands(markdown):
        outcome = attempt(command, shell, until_s)
        yield outcome
        if not outcome.ended_well:
            return


def attempt(command: Command, shell: Shell, until_s: float) -> Outcome:
    """Run a command once or, with the comment "until", until its output and status are right.

    Returns the last outcome. `until_s` is a duration: after it the command is not repeated again.
    """
    began_s = time.monotonic()
    while True:
        printed, status = shell.run(command.typed)
        differs = "" if command.output is None else difference(command.output, printed)
        took_s = time.monotonic() - began_s
        outcome = Outcome(command, printed, status, differs, took_s)
        is_right = outcome.ended_well and not differs
        if is_right or not command.is_repeated or took_s >= until_s:
            return outcome
        time.sleep(AGAIN_S)
