"""Runs some of Kafka's test classes in a Java process."""

import json
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from e2e.kafka import debian
from e2e.kafka.jars import jars
from e2e.kafka.java import SHORT_LIVED, compiled
from e2e.kafka.process import DIE_WITH_US

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
SOURCES = HERE / "sources"
SUITES = ("clients", "streams")
TEST_LIMIT_S = 180
"""How long a test may take; then its process is ended and the test has failed."""
PROCESS_LIMIT_S = 4 * 3_600
"""A hang guard."""
DONE = "has a result"
NOT_CHOSEN = "not chosen"
FINISHED = "finished"
"""The outcome of a class whose tests all have results."""
HEAP = ("-Xmx1g",)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a test. `why` is the reason for a skip, or the exception's message."""

    test: str
    outcome: str
    why: str = ""
    ms: int = 0
    trace: str = ""


def classes(suite: str) -> list[str]:
    """The names of the test classes of a suite, with their packages."""
    (jar,) = jars(POM).glob(f"kafka-{suite}-integration-tests-*-test.jar")
    names = (name.removesuffix(".class").replace("/", ".") for name in ZipFile(jar).namelist())
    return sorted(name for name in names if name.endswith("Test") and "$" not in name)


def simple(test_class: str) -> str:
    """A class's name without its package."""
    return test_class.rpartition(".")[2]


def read(results: Path) -> list[Result]:
    """The results of a file; a line that was cut off does not count."""
    return list(_read(results)) if results.exists() else []


def _read(results: Path) -> Iterator[Result]:
    for line in results.read_text().splitlines():
        try:
            result = Result(**json.loads(line))
        except json.JSONDecodeError:
            continue
        if not result.why.endswith((DONE, NOT_CHOSEN)):
            yield result


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs classes. `brokers` is the address of the server for brokers; `directory` gets files."""

    brokers: str
    directory: Path
    skipped: Iterable[tuple[str, str]]
    """Patterns for names of tests, and why they are skipped."""
    log: str = "error"
    test_limit_s: int = TEST_LIMIT_S

    def run(self, test_classes: Sequence[str], results: Path, only: Collection[str] = ()) -> None:
        """Run the tests of classes that have no result in the file `results`, which is appended to.

        `only` are the names of the tests to run; empty for all. Each time that a test takes too
        long, the others are run in another process.
        """
        while True:
            before = read(results)
            finished = {one.test for one in before if one.outcome == FINISHED}
            left = [one for one in test_classes if simple(one) not in finished]
            if not left or self._run_once(left, results, before, only) == 0:
                break
            if len(read(results)) == len(before):
                break

    def _run_once(
        self,
        test_classes: Sequence[str],
        results: Path,
        done: Iterable[Result],
        only: Collection[str],
    ) -> int:
        """Run one process; returns its exit status."""
        self.directory.mkdir(parents=True, exist_ok=True)
        skipped = self.directory / "skipped"
        lines = [(one.test, DONE) for one in done if "#" in one.test]
        skipped.write_text(
            "".join(f"{pattern}\t{reason}\n" for pattern, reason in [*lines, *self.skipped])
        )
        chosen = self.directory / "only"
        chosen.write_text("".join(f"{name}\n" for name in only))
        with (self.directory / "output").open("ab") as output:
            return subprocess.run(
                self._command(test_classes, results, skipped, chosen),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=PROCESS_LIMIT_S,
                check=False,
            ).returncode

    def _command(
        self, test_classes: Sequence[str], results: Path, skipped: Path, only: Path
    ) -> list[str]:
        # Classes of ours come before the jars: one of them replaces one of Kafka's.
        path = [str(compiled(SOURCES, POM)), str(SOURCES), f"{jars(POM)}/*"]
        return [
            *(*DIE_WITH_US, "nice", debian.program("java"), *SHORT_LIVED, *HEAP),
            f"-Djava.io.tmpdir={self.directory}",
            f"-Dlog4j2.configurationFile={SOURCES / 'log.properties'}",
            f"-Dchiplog.log={self.log}",
            f"-Dchiplog.brokers={self.brokers}",
            f"-Dchiplog.skipped={skipped}",
            f"-Dchiplog.only={only}",
            *("-cp", ":".join(path), "chiplog.compat.Main"),
            *(str(results), str(self.test_limit_s), *test_classes),
        ]
