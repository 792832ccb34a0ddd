"""Kafka's StreamsSmokeTest: a driver that writes and verifies, and a processor between."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import DIE_WITH_US, write_properties

POM: Final = Path(__file__).with_name("pom.xml")
LONG_DRIVER: Final = Path(__file__).with_name("sources") / "SmokeDriver.java"
PROGRAM: Final = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS: Final = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg", "fk"),
)
"""What the driver writes and verifies; somebody else has to create them."""
WRITES: Final = "records produced"
RUNS: Final = "REBALANCING -> RUNNING"
CLOSED: Final = "SMOKE-TEST-CLIENT-CLOSED"
FAILED: Final = "SMOKE-TEST-CLIENT-EXCEPTION"
EXACTLY_ONCE: Final = {"processing.guarantee": "exactly_once_v2"}
"""Also for the driver: without it, results may be there more often than once, and it does not ask
whether a transaction is left open."""

STORES_IN_MEMORY: Final = {
    "dsl.store.suppliers.class": (
        "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
    )
}
"""By default each task has several RocksDB databases, and all are written and synced to the local
disk when the processor closes. On a busy disk that alone takes about as long as the minute that the
processor gives itself. What is stored in the cluster is the same."""


class SmokeTest:
    """Both programs; what they print lies in `directory`."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        self.application = f"SmokeTest-{directory.name}"
        """Group id of the processor, and the beginning of its internal topics and transactional
        ids. A processor does not leave its group, so the next one would wait for it."""
        self.started: list[subprocess.Popen[bytes]] = []

    def processor(self) -> subprocess.Popen[bytes]:
        """Start the processor, with exactly-once semantics."""
        properties = self._properties(
            "processor", {"application.id": self.application, **STORES_IN_MEMORY}
        )
        options = (*SHORT_LIVED, "-Xmx512m", f"-Djava.io.tmpdir={self.directory}")
        return self._start(
            "processor",
            [*java(PROGRAM, options, log="warn", pom=POM), str(properties), "process"],
        )

    def driver(self) -> subprocess.Popen[bytes]:
        """Start the driver, which writes for 90 seconds."""
        properties = self._properties("driver", {})
        return self._start(
            "driver",
            [*java(PROGRAM, (*SHORT_LIVED, "-Xmx256m"), pom=POM), str(properties), "run"],
        )

    def long_driver(self, lasts_s: int, records: int) -> subprocess.Popen[bytes]:
        """Start the driver, which writes so many records of each key in this time."""
        command = java(
            "SmokeDriver", (*SHORT_LIVED, "-Xmx512m"), compiled(LONG_DRIVER, POM), pom=POM
        )
        return self._start("driver", [*command, self.bootstrap, str(lasts_s), str(records)])

    def printed(self, name: str) -> str:
        """What the driver or the processor has printed so far."""
        return (self.directory / name).read_text(errors="replace")

    def kill(self) -> None:
        for one in self.started:
            one.kill()
            one.wait()

    def _properties(self, name: str, more: Mapping[str, str]) -> Path:
        path = self.directory / f"{name}.properties"
        write_properties(path, {"bootstrap.servers": self.bootstrap, **EXACTLY_ONCE, **more})
        return path

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.directory / name).open("wb") as output:
            child = subprocess.Popen(
                [*DIE_WITH_US, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.started.append(child)
        return child
