"""What is undone however this process ends, kill -9 included."""

import shlex
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

LIMIT_S = 60


class Undone:
    """Commands that a shell of its own runs when the `with` block, or this process, has ended.

    It waits for the end of a pipe that nobody else holds. A command that fails, since there is
    nothing to undo, is no failure.
    """

    def __init__(self, *commands: Sequence[str]) -> None:
        lines = ["cat", *map(_line, commands)]
        self._command = ["sh", "-c", "\n".join(lines)]
        self._shell: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # A session of its own: an interrupt from the keyboard goes to all of ours.
        self._shell = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        assert self._shell is not None
        self._shell.communicate(timeout=LIMIT_S)


def _line(command: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, command))
