"""Kafka Connect: a distributed worker with exactly-once support, and a connector that reads a file.

The worker writes the lines of the file, and in the same transactions how far it has read.
"""

import json
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from e2e.kafka.java import SHORT_LIVED, java
from e2e.kafka.members import wait_for
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.kafka.process import write_properties
from e2e.loopback.child import Child

PROGRAM: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
CONNECTOR: Final = "lines"
COMMIT_EVERY_MS: Final = 2_500
"""The connector reads once a second: a transaction has several reads, and is open most of the time.
Connect's default is a transaction for each read, which is open only for a moment."""
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""After a timeout Connect's task fails for good, and on a busy machine a broker that was killed may
be missing for longer than the minute that is the default."""
ANSWER_LIMIT_S, READY_LIMIT_S = 30, 180
PAUSE_S, LINES_AT_ONCE = 0.05, 10


class Worker:
    """The only worker of its Connect cluster; it can be killed, and started again."""

    def __init__(self, bootstrap: str, directory: Path, group: str) -> None:
        """`directory` gets its properties and its log."""
        self.group = group
        self.topics = {what: f"{group}-{what}" for what in ("config", "offset", "status")}
        """What Connect stores -> the topic. Connect gives up creating one after 30 seconds."""
        (port,) = free_ports(1)
        self.address = f"http://{LOOPBACK}:{port}"
        properties = directory / "worker.properties"
        write_properties(properties, self._properties(bootstrap))
        command = java(PROGRAM, (*SHORT_LIVED, "-Xmx256m"), log="warn")
        self.process = Child([*command, properties], directory / "worker.log")

    def _properties(self, bootstrap: str) -> Mapping[str, str]:
        return {
            "bootstrap.servers": bootstrap,
            "group.id": self.group,
            "exactly.once.source.support": "enabled",
            **{f"{what}.converter": STRINGS for what in ("key", "value")},
            **{f"{what}.storage.topic": topic for what, topic in self.topics.items()},
            "listeners": self.address,
            # By default Connect waits for ten seconds until it takes a worker for dead, and then
            # for five minutes until another one gets its tasks.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "2000",
            "scheduled.rebalance.max.delay.ms": "0",
            # Without looking into every class of the class path for connectors.
            "plugin.discovery": "service_load",
        }

    @property
    def transactional_id(self) -> str:
        """That of the connector's only task, as Connect composes it."""
        return f"{self.group}-{CONNECTOR}-0"

    def start(self) -> None:
        """Start it without waiting for anything."""
        self.process.start()

    def kill(self) -> None:
        """kill -9; does nothing if it does not run."""
        self.process.kill()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing more until `thaw`, or until it is killed."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, sent: signal.Signals) -> None:
        assert self.process.process is not None, "the worker was not started"
        self.process.process.send_signal(sent)

    def read_lines(self, file: Path, topic: str) -> None:
        """Wait until it has taken a connector that writes the lines of a file to the topic."""
        connector = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(file),
            "topic": topic,
            "tasks.max": "1",
            "exactly.once.support": "required",
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": str(COMMIT_EVERY_MS),
            "producer.override.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        }
        self._put("config", connector)

    def pause(self) -> None:
        """Have the connector paused, which commits its transaction a moment later."""
        self._put("pause", {})

    def _put(self, what: str, value: Mapping[str, str]) -> None:
        """Ask for something at the REST interface until it is accepted; a worker that starts, or
        whose group rebalances, refuses everything.

        Raises `AssertionError` with its log if the worker ends, or after `READY_LIMIT_S`.
        """
        refused = [""]

        def is_accepted() -> bool:
            assert self.process.runs, f"the worker has ended:\n{self.process.tail()}"
            request = urllib.request.Request(
                f"{self.address}/connectors/{CONNECTOR}/{what}",
                data=json.dumps(value).encode(),
                headers={"Content-Type": "application/json"},
                method="PUT",
            )
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S):
                    return True
            except urllib.error.HTTPError as error:
                refused[0] = error.read().decode(errors="replace")
                return False

        try:
            wait_for(f"Connect accepts {what}", is_accepted, READY_LIMIT_S)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {refused[0]}\n{self.process.tail()}") from late


class Lines:
    """A file that grows while the `with` block runs, until `stop`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.written: list[bytes] = []
        """The lines so far, without newlines."""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self.file.open("ab", buffering=0) as file:
            while not self._ending.is_set():
                first = len(self.written)
                new = [b"line %d" % (first + number) for number in range(LINES_AT_ONCE)]
                file.write(b"".join(line + b"\n" for line in new))
                self.written += new
                self._ending.wait(PAUSE_S)

    def stop(self) -> None:
        """Write no more lines."""
        self._ending.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.file.touch()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
