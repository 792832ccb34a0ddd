"""Clients that are separate programs, and print a line for each event."""

import subprocess
import threading
from pathlib import Path

from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import STOP_LIMIT_S
from e2e.kafka.process import DIE_WITH_US


class Program:
    """A program and the thread that reads its output, line by line, until it ends."""

    name: str

    def __init__(self, bootstrap: str, ledger: Ledger, directory: Path) -> None:
        self.bootstrap, self.ledger, self.directory = bootstrap, ledger, directory
        self.ended = threading.Event()
        self.child: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self.read, daemon=True, name=self.name)

    def command(self) -> list[str]:
        raise NotImplementedError

    def line(self, text: str) -> None:
        """Handle one printed line. A `ValueError` or `KeyError` is noted as an error."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the program. The kernel kills it when the calling thread ends."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{self.name}.log").open("ab") as errors:
            self.child = subprocess.Popen(
                [*DIE_WITH_US, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.thread.start()

    def read(self) -> None:
        """Handle all printed lines until the program ends; the body of the thread."""
        assert self.child is not None
        assert self.child.stdout is not None
        for text in self.child.stdout:
            if not text.endswith("\n"):
                break  # the program was killed while it wrote the line
            try:
                self.line(text.rstrip("\n"))
            except (ValueError, KeyError) as problem:
                self.ledger.errors.append(f"{self.name} printed {text!r}: {problem}")
        self.ended.set()

    def must_run(self) -> None:
        """Note an error in the ledger if the program has ended before it was asked to."""
        if self.child is not None and self.child.poll() is not None:
            self.ledger.errors.append(f"{self.name} ended: {self.child.returncode}")

    def ask_to_stop(self) -> None:
        """Send SIGTERM; a program that has ended before is noted as an error."""
        self.must_run()
        if self.child is not None:
            self.child.terminate()

    def wait_stopped(self) -> None:
        """Wait until the program ends; after `STOP_LIMIT_S` note an error. Kill it in any case."""
        if self.child is not None and not self.ended.wait(STOP_LIMIT_S):
            self.ledger.errors.append(f"{self.name} does not end")
        self.kill()

    def abandon(self) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the program if it still runs, and wait until all its output is handled."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.thread.join()
            if self.child.stdout is not None:
                self.child.stdout.close()
