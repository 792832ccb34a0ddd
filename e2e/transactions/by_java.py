"""Java's client: the second generation of transactions (KIP-890)."""

import contextlib
import itertools
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, ClassVar, Final, Self

from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import DIE_WITH_US
from e2e.transactions.client import (
    LIMIT_S,
    MAX_POLL_RECORDS,
    TRANSACTION_TIMEOUT_MS,
    FencedError,
    Input,
    Isolation,
    Producer,
    Source,
    TransactionalClient,
    TransactionFailedError,
)

PROGRAM: Final = Path(__file__).with_name("sources") / "Transactions.java"
READER: Final = "reader"


class Jvm:
    """The program `Transactions.java`, which several threads may ask at the same time."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the JVM
        self._process = subprocess.Popen(
            [*DIE_WITH_US, *java("Transactions", SHORT_LIVED, compiled(PROGRAM))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[list[str]]] = {}
        # What the JVM wrote to stderr, once it has ended.
        self._ended: str | None = None
        self._thread = threading.Thread(target=self._take_answers, daemon=True)
        self._thread.start()

    def ask(self, name: str, what: str, *arguments: object) -> list[str]:
        """Have something done by the producer or consumer of this name; returns the values.

        Raises `FencedError` or `TransactionFailedError` with Java's exceptions, the second also
        when the JVM has ended.
        """
        answered: Future[list[str]] = Future()
        assert self._process.stdin is not None
        with self._lock:
            if self._ended is not None:
                raise TransactionFailedError(self._ended)
            number = str(next(self._numbers))
            self._waiting[number] = answered
            # With a JVM that has just ended this fails; then `_take_answers` answers.
            with contextlib.suppress(BrokenPipeError):
                line = "\t".join((number, name, what, *map(str, arguments)))
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        outcome, *found = answered.result(LIMIT_S)
        if outcome != "ok":
            kind = FencedError if outcome == "fenced" else TransactionFailedError
            raise kind(" ".join(found))
        return [one for one in found if one]

    def new_name(self) -> str:
        """A name for a producer or consumer."""
        return f"n{next(self._numbers)}"

    def _take_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *fields = line.rstrip("\n").split("\t")
            self._waiting.pop(number).set_result(fields)
        self._errors.seek(0)
        with self._lock:
            self._ended = self._errors.read().decode(errors="replace")
            for one in self._waiting.values():
                one.set_result(["failed", self._ended])

    def end(self) -> None:
        """Kill the JVM, whatever it does: who still waits for an answer has it at once."""
        self._process.kill()
        self._process.wait()
        self._thread.join(LIMIT_S)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # What was written but not sent when it was killed cannot be sent any more.
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()


class JavaSource(Source):
    def __init__(self, jvm: Jvm, bootstrap: str, group: str, topic: str) -> None:
        self.jvm, self.name = jvm, jvm.new_name()
        jvm.ask(self.name, "source", bootstrap, group, topic, MAX_POLL_RECORDS)

    def poll(self) -> list[Input]:
        found = (one.split(" ", 2) for one in self.jvm.ask(self.name, "poll"))
        return [
            Input(int(partition), int(offset), value.encode()) for partition, offset, value in found
        ]

    def rewind(self) -> None:
        self.jvm.ask(self.name, "rewind")

    def close(self) -> None:
        self.jvm.ask(self.name, "leave")


class JavaProducer(Producer):
    def __init__(
        self,
        jvm: Jvm,
        bootstrap: str,
        transactional_id: str,
        timeout_ms: int,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`more` are further settings."""
        self.jvm, self.name, self.bootstrap = jvm, jvm.new_name(), bootstrap
        settings = [f"{name}={value}" for name, value in (more or {}).items()]
        jvm.ask(self.name, "producer", bootstrap, transactional_id, timeout_ms, *settings)

    def begin(self) -> None:
        self.jvm.ask(self.name, "begin")

    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        self.jvm.ask(self.name, "send", topic, partition, *(one.decode() for one in values))

    def flush(self) -> None:
        self.jvm.ask(self.name, "flush")

    def send_offsets(self, source: Source) -> None:
        assert isinstance(source, JavaSource)
        # A consumer belongs to one thread at a time: no poll of it is under way now.
        self.jvm.ask(self.name, "offsets", source.name)

    def send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        where = topic, partition, offset, metadata
        self.jvm.ask(self.name, "offset", self.bootstrap, group, *where)

    def commit(self) -> None:
        self.jvm.ask(self.name, "commit")

    def abort(self) -> None:
        self.jvm.ask(self.name, "abort")

    def close(self) -> None:
        self.jvm.ask(self.name, "close")


class TransactionalJava(TransactionalClient):
    """One JVM for all producers and consumers, begun before the first and ended after the last."""

    name: ClassVar[str] = "java"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are further ones of its producers, under Kafka's names."""
        self.settings = settings

    def __enter__(self) -> Self:
        self._jvm = Jvm()
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.end()

    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> JavaProducer:
        return JavaProducer(self._jvm, bootstrap, transactional_id, timeout_ms, self.settings)

    def source(self, bootstrap: str, group: str, topic: str) -> JavaSource:
        return JavaSource(self._jvm, bootstrap, group, topic)

    def read(
        self, bootstrap: str, topic: str, partition: int, count: int, isolation: Isolation
    ) -> list[bytes]:
        found = self._jvm.ask(READER, "read", bootstrap, topic, partition, count, isolation.value)
        return [one.encode() for one in found]
