"""Kafka's TransactionalMessageCopier: it copies a partition, and aborts a third of what it does.

It runs to the end that its partition had when it was started. It consumes, produces and commits its
offsets in transactions, and goes back to its committed offsets after each abort.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.kafka.java import SHORT_LIVED, java
from e2e.kafka.process import DIE_WITH_US

TRANSACTION_SIZE = 50
# As in Kafka's own test: at least as long as a request may take, or a transaction whose broker was
# killed would time out.
TRANSACTION_TIMEOUT_MS = 40_000
GROUP = "copiers"


class Copiers:
    """One process for each partition of the input topic, which all started together."""

    def __init__(self, bootstrap: str, topics: tuple[str, str], partitions: int) -> None:
        """`topics` are that of the input and that of the output."""
        self.bootstrap, (self.input, self.output) = bootstrap, topics
        self.partitions = range(partitions)
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, directory: Path) -> None:
        """Start all; `directory` gets what they print."""
        directory.mkdir()
        for partition in self.partitions:
            with (directory / f"copier-{partition}").open("wb") as output:
                self.running.append(
                    subprocess.Popen(
                        [*DIE_WITH_US, *self._command(partition)],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                    )
                )

    def _command(self, partition: int) -> Sequence[str]:
        return [
            *java(
                "org.apache.kafka.tools.TransactionalMessageCopier",
                (*SHORT_LIVED, "-Xmx128m"),
                log="warn",
            ),
            *("--broker-list", self.bootstrap, "--consumer-group", GROUP),
            *("--input-topic", self.input, "--input-partition", str(partition)),
            *("--output-topic", self.output, "--transactional-id", f"copier-{partition}"),
            *("--transaction-size", str(TRANSACTION_SIZE)),
            *("--transaction-timeout", str(TRANSACTION_TIMEOUT_MS)),
            *("--enable-random-aborts", "--use-group-metadata"),
        ]

    @property
    def run(self) -> bool:
        """Whether any of them still runs."""
        return any(one.poll() is None for one in self.running)

    def wait(self, limit_s: float) -> list[int]:
        """Wait until all have ended; returns their exit statuses."""
        statuses = [one.wait(limit_s) for one in self.running]
        self.running = []
        return statuses

    def kill(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()
        self.running = []
