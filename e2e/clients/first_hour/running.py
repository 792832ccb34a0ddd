"""Runs the programs of `programs` as a user does; only the bootstrap address is given."""

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
    """A record as the programs print it; without a key, `key` is "None" or "null"."""

    partition: int
    offset: int
    key: str
    value: str


def rows(lines: list[str]) -> list[Row]:
    """The records among the printed lines of a program; other lines are ignored."""
    found = [match for line in lines if (match := ROW.fullmatch(line))]
    return [Row(int(one[1]), int(one[2]), one[3], one[4]) for one in found]


class Program:
    """A process that is started with the `with` block, and killed at its end if it still runs."""

    def __init__(self, command: list[str], bootstrap: str) -> None:
        self.command = command
        self.environment = {**os.environ, "BOOTSTRAP": bootstrap}
        self.lines: list[str] = []
        """The lines it has printed so far, without newlines."""
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
        """Wait until it has printed `count` records.

        Raises `AssertionError` with its output if it ends before, or after `LIMIT_S`.
        """
        until_s = time.monotonic() + LIMIT_S
        while len(rows(self.lines)) < count:
            assert time.monotonic() < until_s, self._message(
                f"has not printed {count} records after {LIMIT_S} s"
            )
            assert not self.has_ended, self._message(f"ended before it had printed {count} records")
            time.sleep(POLL_S)
        return rows(self.lines)

    def result(self, status: int = 0) -> list[str]:
        """Wait for its end and return its printed lines.

        Raises `AssertionError` with its output if the exit status is another one.
        """
        try:
            found = self.child.wait(LIMIT_S)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(self._message(f"has not ended after {LIMIT_S} s")) from late
        self.reader.join(LIMIT_S)
        assert found == status, self._message(f"ended with status {found} instead of {status}")
        return self.lines

    def stop(self, status: int) -> list[str]:
        """End it with SIGTERM and return its printed lines; see `result`."""
        self.child.terminate()
        return self.result(status)

    def _message(self, what: str) -> str:
        """An error message: the command, `what` happened, and the output."""
        self.errors.seek(0)
        printed = "\n".join(self.lines)
        return f"{' '.join(self.command)[-100:]} {what}:\n{printed}\n{self.errors.read()[-4000:]}"


def python(bootstrap: str, name: str, *arguments: str) -> Program:
    """A Python program of `programs`, by its file name."""
    return Program([sys.executable, "-u", str(PROGRAMS / name), *arguments], bootstrap)


def three_records(bootstrap: str) -> Program:
    """The Java program `ThreeRecords`, which sends three records."""
    classes = compiled(PROGRAMS / "ThreeRecords.java")
    return Program(java("ThreeRecords", SHORT_LIVED, classes), bootstrap)


def spring_listener(bootstrap: str) -> Program:
    """The Spring Boot application, a listener that runs until SIGTERM."""
    pom = SPRING / "pom.xml"
    classes = compiled(SPRING / "src" / "main" / "java" / "shop" / "Listener.java", pom)
    path = (f"{jars(pom)}/*", str(classes), str(SPRING / "src" / "main" / "resources"))
    command = [debian.program("java"), *SHORT_LIVED, "-cp", ":".join(path), "shop.Listener"]
    return Program(command, bootstrap)
