"""One shell for all commands of a page, as for a reader who types them from top to bottom.

A variable that one command exports is set for the next ones. Commands read an empty input.
"""

import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LIMIT_S: Final = 1_800
"""Limit for one command; the first `make cluster-up` on a machine builds for ten minutes."""


class Shell:
    """A bash that runs until it is closed."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        # Printed after each command, so that the end of its output is known.
        self._mark = f"end-{secrets.token_hex(8)}"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, typed: str, limit_s: float = LIMIT_S) -> tuple[str, int]:
        """Run a command; returns what it printed on both outputs, and its exit status.

        Raises `TimeoutError` after `limit_s`, and `RuntimeError` where the command ended the shell.
        The shell cannot be used after either.
        """
        assert self._process.stdin is not None
        end = f"printf '\\n{self._mark} %d\\n' $?"
        script = f"eval {_quoted(typed)} </dev/null\n{end}\n"
        self._process.stdin.write(script.encode())
        self._process.stdin.flush()
        return self._read(typed, time.monotonic() + limit_s)

    def _read(self, typed: str, until_s: float) -> tuple[str, int]:
        """Read until the mark and the exit status; `until_s` is a time of the monotonic clock."""
        assert self._process.stdout is not None
        descriptor, found = self._process.stdout.fileno(), b""
        mark = f"\n{self._mark} ".encode()
        readable = select.poll()  # unlike select() it takes descriptors above 1,023
        readable.register(descriptor, select.POLLIN)
        while mark not in found or not found.endswith(b"\n"):
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not readable.poll(left_s * 1000):
                self.close()
                raise TimeoutError(
                    f"the command did not end in time: {typed}\n{found.decode(errors='replace')}"
                )
            read = os.read(descriptor, 65_536)
            if not read:
                raise RuntimeError(
                    f"the command ended the shell: {typed}\n{found.decode(errors='replace')}"
                )
            found += read
        printed, _, status = found.rpartition(mark)
        return printed.decode(errors="replace"), int(status)

    def close(self) -> None:
        """Kill the shell and all processes that its commands left running."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _quoted(text: str) -> str:
    """A text as one word of a shell command."""
    return "'" + text.replace("'", "'\\''") + "'"
