"""The program as a function that a test calls, and the file of its --config."""

import os
from collections.abc import Mapping
from pathlib import Path
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


def written(path: Path, properties: Mapping[str, str]) -> str:
    """The path of a properties file, with the escapes that Java reads."""
    escaped = {key: value.replace("\\", "\\\\") for key, value in properties.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    return str(path)
