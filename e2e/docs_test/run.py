"""Typing a page, command by command."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from e2e.docs_test.compare import difference
from e2e.docs_test.page import Command, commands
from e2e.docs_test.shell import Shell

UNTIL_S: Final = 60.0
AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one command."""

    command: Command
    printed: str
    status: int
    difference: str
    """Empty where it printed what the page says."""

    took_s: float

    @property
    def ended_well(self) -> bool:
        """Whether it ended with the status that the page says."""
        return (self.status != 0) == self.command.fails


def run(markdown: str, shell: Shell, until_s: float = UNTIL_S) -> Iterator[Outcome]:
    """Every command of a page, in order; nothing after one that did not end as it should."""
    for command in commands(markdown):
        outcome = attempt(command, shell, until_s)
        yield outcome
        if not outcome.ended_well:
            return


def attempt(command: Command, shell: Shell, until_s: float) -> Outcome:
    """Type a command, once or until it prints what the page says."""
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
