"""Runs programs, with an error that contains what the failed program printed."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandFailed(Exception):  # noqa: N818 - the sentence reads better without "Error"
    """A program ended with an exit status other than 0; the text has the end of its output."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        tail = output.strip()[-2000:]
        super().__init__(f"{' '.join(command)}: exit status {status}\n{tail}")
        self.status = status
        self.output = output


def run(
    *command: str,
    input_text: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 120,
    check: bool = True,
) -> str:
    """Run a program to its end and return what it printed on both outputs.

    Raises `CommandFailed` for an exit status other than 0, unless `check` is False, and
    `subprocess.TimeoutExpired` after `timeout_s`. `env` replaces the whole environment.
    """
    done = subprocess.run(
        command,
        input=input_text,
        stdin=None if input_text is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        cwd=cwd,
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode != 0:
        raise CommandFailed(command, done.returncode, done.stdout)
    return done.stdout
