"""Cleanup commands that run no matter how this process ends, even by SIGKILL."""

import shlex
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

LIMIT_S = 60


class Undone:
    """Commands that a separate shell runs when the `with` block, or this process, has ended.

    The shell reads from a pipe until its end, which comes when this process closes the pipe or
    ends. Commands that fail are ignored: then there was nothing to undo.
    """

    def __init__(self, *commands: Sequence[str]) -> None:
        lines = ["cat", *map(_line, commands)]
        self._command = ["sh", "-c", "\n".join(lines)]
        self._shell: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # In its own session, so that Ctrl-C, which reaches all processes of ours, does not end it.
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
        """Close the shell's input, so that it runs the commands, and wait for its end."""
        assert self._shell is not None
        self._shell.communicate(timeout=LIMIT_S)


def _line(command: Sequence[str]) -> str:
    """A command as a line of a shell script."""
    return " ".join(map(shlex.quote, command))
