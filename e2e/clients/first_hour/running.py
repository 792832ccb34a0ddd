"""The programs of `programs`, run as a user runs them; only the bootstrap address is given."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

from e2e.kafka import debian
from e2e.kafka.jars import jars
from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import DIE_WITH_US

PROGRAMS = Path(__file__).with_name("programs")
SPRING = PROGRAMS / "spring"
LIMIT_S = 90
POLL_S = 0.05
ROW = re.compile(r"partition=(\d+) offset=(\d+) key=(\S+) value=(.*)")


class Row(NamedTuple):
    """A record as the programs print it; their word for no key is None or null."""

    partition: int
    offset: int
    key: str
    value: str


def rows(lines: list[str]) -> list[Row]:
    """The records among what a program printed."""
    found = [match for line in lines if (match := ROW.fullmatch(line))]
    return [Row(int(one[1]), int(one[2]), one[3], one[4]) for one in found]


class Program:
    """A process that runs from entering the `with` block until leaving it at the latest."""

    def __init__(self, command: list[str], bootstrap: str) -> None:
        self.command = command
        self.environment = {**os.environ, "BOOTSTRAP": bootstrap}
        self.lines: list[str] = []
        """What it printed so far, without ends of lines."""
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when it has ended
        self.child: subprocess.Popen[str]
        self.reader = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.rstrip("\n"))

    def __enter__(self) -> Self:
        self.child = subprocess.Popen(
            [*DIE_WITH_US, *self.command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()
        self.reader.join(LIMIT_S)
        assert self.child.stdout is not None
        self.child.stdout.close()
        self.errors.close()

    @property
    def has_ended(self) -> bool:
        return self.child.poll() is not None

    def wait_for_rows(self, count: int) -> list[Row]:
        """Wait until it printed so many records. Raises `AssertionError` with what it printed."""
        until_s = time.monotonic() + LIMIT_S
        while len(rows(self.lines)) < count:
            assert time.monotonic() < until_s, self._said("prints too little")
            assert not self.has_ended, self._said("has ended")
            time.sleep(POLL_S)
        return rows(self.lines)

    def result(self, status: int = 0) -> list[str]:
        """What it printed to its end, which has to come with this status."""
        try:
            found = self.child.wait(LIMIT_S)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(self._said(f"has not ended after {LIMIT_S} s")) from late
        self.reader.join(LIMIT_S)
        assert found == status, self._said(f"ended with {found}")
        return self.lines

    def stop(self, status: int) -> list[str]:
        """What it printed until it obeyed SIGTERM."""
        self.child.terminate()
        return self.result(status)

    def _said(self, what: str) -> str:
        self.errors.seek(0)
        printed = "\n".join(self.lines)
        return f"{' '.join(self.command)[-100:]} {what}:\n{printed}\n{self.errors.read()[-4000:]}"


def python(bootstrap: str, name: str, *arguments: str) -> Program:
    """A program in Python, by the name of its file."""
    return Program([sys.executable, "-u", str(PROGRAMS / name), *arguments], bootstrap)


def three_records(bootstrap: str) -> Program:
    """Java's producer."""
    classes = compiled(PROGRAMS / "ThreeRecords.java")
    return Program(java("ThreeRecords", SHORT_LIVED, classes), bootstrap)


def spring_listener(bootstrap: str) -> Program:
    """The application of Spring Boot. It ends on SIGTERM."""
    pom = SPRING / "pom.xml"
    classes = compiled(SPRING / "src" / "main" / "java" / "shop" / "Listener.java", pom)
    path = (f"{jars(pom)}/*", str(classes), str(SPRING / "src" / "main" / "resources"))
    command = [debian.program("java"), *SHORT_LIVED, "-cp", ":".join(path), "shop.Listener"]
    return Program(command, bootstrap)
