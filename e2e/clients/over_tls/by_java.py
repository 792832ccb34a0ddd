"""Java's client, in one JVM for all cases."""

import subprocess
from collections.abc import Sequence
from typing import Final, Self

from e2e.clients.over_tls.client import OverTls, Tls
from e2e.cluster.layout import CHECKOUT
from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import DIE_WITH_US, write_properties

PROGRAM: Final = CHECKOUT / "e2e" / "kafka" / "sources" / "OverTls.java"


class JavaOverTls(OverTls):
    """One JVM for all calls."""

    name = "java"

    def __enter__(self) -> Self:
        security = self.directory / "java.security"
        # Its own list has TLS 1.1: then no broker would be asked.
        security.write_text("jdk.tls.disabledAlgorithms=\n")
        options = (*SHORT_LIVED, f"-Djava.security.properties={security}")
        self._errors = self.directory / "stderr"
        with self._errors.open("wb") as errors:
            self._jvm = subprocess.Popen(
                [*DIE_WITH_US, *java("OverTls", options, compiled(PROGRAM))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._opened.enter_context(self._jvm)
        self._opened.callback(self._jvm.kill)
        return self

    def produce(self, tls: Tls, topic: str, values: Sequence[bytes]) -> None:
        self._must("produce", tls, topic, *(value.decode() for value in values))

    def consume(self, tls: Tls, topic: str, count: int) -> list[bytes]:
        return [value.encode() for value in self._must("consume", tls, topic, str(count))]

    def refusal(self, tls: Tls, limit_s: int) -> str:
        outcome, *fields = self._ask("connect", tls)
        return "" if outcome == "ok" else " ".join(fields)

    def _must(self, action: str, tls: Tls, *fields: str) -> list[str]:
        """What was asked for. Raises `AssertionError` if Java's client could not do it."""
        outcome, *found = self._ask(action, tls, *fields)
        assert outcome == "ok", found
        return [one for one in found if one]

    def _ask(self, action: str, tls: Tls, *fields: str) -> list[str]:
        """The fields of the program's answer."""
        settings = self.directory / "client.properties"
        write_properties(
            settings,
            {
                "bootstrap.servers": tls.bootstrap,
                "default.api.timeout.ms": "20000",
                "request.timeout.ms": "10000",
                **tls.files.java(tls.version),
            },
        )
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write("\t".join((action, str(settings), *fields)) + "\n")
        self._jvm.stdin.flush()
        answer = self._jvm.stdout.readline()
        assert answer, self._errors.read_text(errors="replace")
        return answer.rstrip("\n").split("\t")
