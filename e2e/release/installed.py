"""A release in an empty virtual environment, as a user installs it."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from e2e.clients.standalone import StandaloneBroker
from e2e.cluster import layout
from e2e.cluster.shell import run

LOCK: Final = layout.CHECKOUT / "requirements" / "dev.lock"
PINNED: Final = re.compile(r"(?m)^[\w.-]+==[^\s;\\]+")
LIMIT_S: Final = 600


class Environment:
    """A virtual environment with the wheel in it, and what the wheel asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path, wheel: Path, extras: Iterable[str]) -> "Environment":
        """Make one with the versions that the tests know, so that a new one breaks nothing here."""
        run(sys.executable, "-m", "venv", str(folder), timeout_s=LIMIT_S)
        made = cls(folder)
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(PINNED.findall(LOCK.read_text())))
        made(
            *("pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--constraint", str(constraints), f"{wheel}[{','.join(extras)}]"),
        )
        return made

    def __call__(self, program: str, *arguments: str, input_text: str | None = None) -> str:
        """Run one of its programs. Raises `CommandFailed`."""
        return run(str(self.program(program)), *arguments, input_text=input_text, timeout_s=LIMIT_S)

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

    def packages(self) -> set[str]:
        """What is installed, by name."""
        listed = self("pip", "list", "--format=freeze", "--disable-pip-version-check")
        return {line.partition("==")[0].lower() for line in listed.split()}


class InstalledBroker(StandaloneBroker):
    """The broker of an environment."""

    environment: Environment

    def command(self) -> list[str]:
        _python, _flag, _module, *arguments = super().command()
        return [str(self.environment.program("chiplog-broker")), *arguments]
