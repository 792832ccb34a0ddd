"""Programs that the kernel kills when this process ends."""

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from e2e.kafka.process import DIE_WITH_US

POLL_S = 0.5


@dataclass(slots=True)
class Child:
    """A program, which can be started several times; its output is appended to the file
    `output`."""

    command: Sequence[str | Path]
    output: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program; the kernel kills it when the thread that calls this ends."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*DIE_WITH_US, *map(str, self.command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send_kill(self) -> None:
        """Send SIGKILL without waiting for the end."""
        if self.process is not None:
            self.process.kill()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; does nothing if the program does not run."""
        child, self.process = self.process, None
        if child is not None:
            child.kill()
            child.wait()

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output, for messages."""
        try:
            return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(nothing)"


class Supervised:
    """Runs a program while the `with` block runs, and restarts it when it ends, like a
    Deployment."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._ending = threading.Event()
        # This thread starts the program: the kernel kills a program when the thread that started it
        # ends.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        """The thread's work: start the program whenever it does not run, and kill it at the end."""
        while not self._ending.is_set():
            if not self.child.runs:
                self.child.start()
            self._ending.wait(POLL_S)
        self.child.kill()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
