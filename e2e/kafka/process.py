"""A broker as a process of this machine: started, awaited, measured, ended by its pid.

What is the same for Apache Kafka (`broker.py`) and for Chiplog
(`e2e.clients.standalone`): tests and measurements take either, and cannot tell
which they have.
"""

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from e2e.cluster.usage import Usage, of_process
from e2e.kafka.ports import LOOPBACK, free_ports

# setpriv becomes the program: the pid stays the same. A broker then does not outlive a
# test run that was killed.
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL")
START_LIMIT_S = 60
STOP_LIMIT_S = 30


class BrokerProcess(ABC):
    """One broker on ports of its own; its settings and what it prints lie in `directory`.

    Everything it stores lies in `home`, of which `logs` is the log directory.
    `settings` are lines of server.properties under Kafka's names, for both brokers.
    As a context manager it is ready inside and killed afterwards: its data are of no
    interest then.
    """

    title: ClassVar[str]

    def __init__(
        self,
        directory: Path,
        *,
        home: Path | None = None,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.home = home or directory / "home"
        self.fsync = fsync
        self.settings = dict(settings or {})
        self.port, *self.side_ports = free_ports(3)
        self.properties = directory / "server.properties"
        self.output = directory / "output"
        self.child: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def logs(self) -> Path:
        """The directory with a directory for each partition."""

    @abstractmethod
    def prepare(self) -> None:
        """Write what the first start needs; called before every start."""

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the broker answers as one that serves clients."""

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        if self.child is None:
            raise RuntimeError(f"{self.title} is not running")
        return self.child.pid

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self.prepare()
        with self.output.open("ab") as output:
            self.child = subprocess.Popen(
                [*DIE_WITH_US, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        deadline_s = time.monotonic() + START_LIMIT_S
        try:
            while not self.is_ready():
                if self.exit_status() is not None or time.monotonic() > deadline_s:
                    raise TimeoutError(f"{self.title} did not start:\n{self.output_tail()}")
                time.sleep(0.02)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask it to end and wait for that."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would. Nothing happens where it does not run."""
        self._end(signal.SIGKILL)

    def _end(self, sig: signal.Signals) -> None:
        """Send a signal and wait for the end.

        Raises `TimeoutExpired` after `STOP_LIMIT_S`; the process is killed then.
        """
        child, self.child = self.child, None
        if child is not None:
            child.send_signal(sig)
            try:
                child.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise

    def exit_status(self) -> int | None:
        """The exit status of a process that ended by itself; None if it runs or was stopped."""
        return None if self.child is None else self.child.poll()

    def usage(self) -> Usage:
        """CPU time since its start, of all its threads, and memory resident now."""
        return of_process(self.pid)

    def output_tail(self, lines: int = 30) -> str:
        """The end of what it printed."""
        try:
            return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(nothing)"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def read_properties(path: Path) -> dict[str, str]:
    """Names and values of a properties file, without its comments."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
