"""A release in an empty virtual environment, as a user installs it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from e2e.clients.standalone import StandaloneBroker
from e2e.cluster import images, layout
from e2e.cluster.shell import run

LOCKS: Final = layout.CHECKOUT / "requirements"
LIMIT_S: Final = 600


class Environment:
    """A virtual environment with Chiplog's wheel and the packages that it requires."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def make(cls, directory: Path, wheel: Path, extras: Sequence[str]) -> "Environment":
        """Make an environment and install the wheel with these extras.

        Packages come from the wheels that the images are built of, if this Python version fits.
        Raises `CommandFailed` if the wheel then requires a package that the extras' locks lack.
        """
        run(sys.executable, "-m", "venv", str(directory), timeout_s=LIMIT_S)
        made = cls(directory)
        made(
            *("pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"),
            *_offline(extras),
            f"{wheel}[{','.join(extras)}]",
        )
        return made

    def __call__(self, program: str, *arguments: str, input_text: str | None = None) -> str:
        """Run one of its programs. Raises `CommandFailed`."""
        return run(str(self.program(program)), *arguments, input_text=input_text, timeout_s=LIMIT_S)

    def program(self, name: str) -> Path:
        return self.directory / "bin" / name

    def packages(self) -> set[str]:
        """What is installed, by name."""
        listed = self("pip", "list", "--format=freeze", "--disable-pip-version-check")
        return {line.partition("==")[0].lower() for line in listed.split()}


def _offline(extras: Iterable[str]) -> Iterator[str]:
    """pip's options to install from the images' wheels only.

    No options for another Python version than the images': pip then asks its registry.
    """
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == images.PYTHON:
        yield "--no-index"
        for extra in extras:
            yield f"--find-links={images.wheels(LOCKS / f'{extra}.lock')}"


class InstalledBroker(StandaloneBroker):
    """The broker of an environment."""

    environment: Environment

    def command(self) -> list[str]:
        """The installed `chiplog-broker` in place of `python -m MODULE`."""
        _python, _flag, _module, *arguments = super().command()
        return [str(self.environment.program("chiplog-broker")), *arguments]
