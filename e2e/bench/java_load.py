"""The Java load program (`sources`), as one process for the whole run."""

import json
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from e2e.kafka.java import compiled, java

SOURCES = Path(__file__).with_name("sources")
OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseParallelGC")
ORDER_LIMIT_S = 120

BATCH_BYTES = 65_536
LINGER_MS = 5
RECORDS_EACH = 100
"""Records of a transaction."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Percentiles of the time from sending a record until the consumer has it."""

    p50_ms: float
    p99_ms: float


class JavaLoad:
    """The running program: it gets an order (a line of text) and answers with a line of JSON.

    A context manager: the process runs inside the `with` block and is killed after it. One that has
    ended is started again with the next order.
    """

    def __init__(self, output: Path, ca: Path | None = None) -> None:
        """`ca` is the file with the CA that it trusts, in orders whose bootstrap is `SSL://…`."""
        self.output = output
        self.options = OPTIONS if ca is None else (*OPTIONS, f"-Dload.ca={ca}")
        self.child: subprocess.Popen[str]

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self) -> None:
        with self.output.open("ab") as errors:
            self.child = subprocess.Popen(
                java("Load", self.options, compiled(SOURCES)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )

    def _end(self) -> None:
        self.child.kill()
        self.child.communicate()

    def produce(
        self, bootstrap: str, topic: str, records: int, size: int, batch_bytes: int = BATCH_BYTES
    ) -> float:
        """Produce with acks=all; returns records a second.

        By default the producer waits 5 ms to fill a batch of 64 KiB; `batch_bytes` 0 sends every
        record in a request of its own, without waiting. `size` is in bytes.
        """
        linger_ms = LINGER_MS if batch_bytes else 0
        answer = self.order("produce", bootstrap, topic, records, size, batch_bytes, linger_ms)
        return answer["records"] / answer["seconds"]

    def consume(self, bootstrap: str, topic: str, partitions: int, records: int) -> float:
        """Read `records` records with one consumer of all partitions; returns records a second."""
        answer = self.order("consume", bootstrap, topic, partitions, records)
        return answer["records"] / answer["seconds"]

    def produce_in_transactions(
        self, bootstrap: str, topic: str, transactional_id: str, records: int, size: int
    ) -> float:
        """Produce with `RECORDS_EACH` records of `size` bytes in a transaction; returns records a
        second."""
        words = ("produce-transactions", bootstrap, topic, transactional_id, records, size)
        answer = self.order(*words, RECORDS_EACH, BATCH_BYTES, LINGER_MS)
        return answer["records"] / answer["seconds"]

    def copy_in_transactions(
        self, bootstrap: str, source: str, target: str, name: str, records: int
    ) -> float:
        """Copy `records` records from one topic to another, with `RECORDS_EACH` in a transaction
        and the offsets of a new group, and change them; returns records a second.

        `name` is that of the group and the transactional id.
        """
        words = ("copy-transactions", bootstrap, source, target, name, records)
        answer = self.order(*words, RECORDS_EACH, BATCH_BYTES, LINGER_MS)
        return answer["records"] / answer["seconds"]

    def latency(self, bootstrap: str, topic: str, rate: int, seconds: int, size: int) -> Waits:
        """Latency from producer to consumer, at `rate` records a second of `size` bytes each."""
        answer = self.order("latency", bootstrap, topic, rate, seconds, size)
        return Waits(answer["p50_ms"], answer["p99_ms"])

    def order(self, *words: str | int) -> dict[str, float]:
        """Give an order, as `words`; returns the numbers of the answer by name.

        Raises `RuntimeError` with the program's output where it ended, or did not answer within
        `ORDER_LIMIT_S` and was killed.
        """
        if self.child.poll() is not None:
            self._start()
        assert self.child.stdin
        assert self.child.stdout
        overdue = threading.Timer(ORDER_LIMIT_S, self.child.kill)
        overdue.start()
        try:
            self.child.stdin.write(" ".join(map(str, words)) + "\n")
            answer = self.child.stdout.readline()
        finally:
            overdue.cancel()
        if not answer:
            self._end()
            tail = self.output.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the Java load ended at {' '.join(map(str, words))}:\n{tail}")
        numbers: dict[str, float] = json.loads(answer)
        return numbers
