"""The program as a function that a test calls."""

import os
from typing import Protocol

from typer.testing import CliRunner, Result

from chiplog_cli.main import app
from chiplog_cli.target import ENVIRONMENT


class Chiplog(Protocol):
    """Runs a command line to its end, in this process."""

    def __call__(self, *arguments: str, stdin: bytes | str = b"") -> Result: ...


def runs(environment: dict[str, str | None]) -> Chiplog:
    """`chiplog` with these variables; nothing else of ours is in the environment."""
    clean = {name: None for name in os.environ if name in {ENVIRONMENT, "KUBECONFIG"}}
    runner = CliRunner(env={**clean, **environment})

    def run(*arguments: str, stdin: bytes | str = b"") -> Result:
        # What no command expects is a failure of the test, with its traceback.
        return runner.invoke(
            app, list(arguments), input=stdin, prog_name="chiplog", catch_exceptions=False
        )

    return run
