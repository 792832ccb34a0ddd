"""The lists kept in this directory: what became of each test, and why some are skipped or fail.

`results.tsv` has a line for each test: its name, what became of it (passed, failed or skipped), and
the reason. `make compat WRITE=1` writes it. `skipped.tsv` and `failing.tsv` have the reasons, by
patterns of names in which `*` stands for any text; they are written by hand.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from e2e.compat.running import Result

HERE: Final = Path(__file__).parent
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
OUTCOMES: Final = (PASSED, FAILED, SKIPPED)
RESULTS: Final = HERE / "results.tsv"
SKIPS: Final = HERE / "skipped.tsv"
CAUSES: Final = HERE / "failing.tsv"
UNKNOWN_CAUSE: Final = "not examined yet"
DISABLED: Final = "disabled by Kafka"
_EXCEPTION: Final = re.compile(r"^[\w.$]+: ")

Reasons = list[tuple[str, str]]
"""Patterns of names, each with a reason."""


def reasons(path: Path) -> Reasons:
    """The patterns of a list, each with its reason."""
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return [(pattern, reason) for pattern, reason in lines]


def reason_for(test: str, known: Reasons) -> str:
    """The reason for the first pattern that matches; empty if none does."""
    return next((reason for pattern, reason in known if matches(test, pattern)), "")


def matches(test: str, pattern: str) -> bool:
    """Whether a name is that of a pattern, in which only `*` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test) is not None


def listed(path: Path = RESULTS) -> dict[str, Result]:
    """Test -> what became of it when the list was written."""
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return {test: Result(test, outcome, why) for test, outcome, why in lines}


def explained(results: Iterable[Result]) -> list[Result]:
    """The results, failures with their causes from the list, and skips without Java's words."""
    causes = reasons(CAUSES)
    return [Result(one.test, one.outcome, why(one, causes)) for one in results]


def why(result: Result, causes: Reasons) -> str:
    """The reason that the list gives for a result."""
    if result.outcome == FAILED:
        return reason_for(result.test, causes) or UNKNOWN_CAUSE
    if result.outcome == SKIPPED:
        if result.why.endswith("is @Disabled"):  # JUnit's words where Kafka gives no reason
            return DISABLED
        # JUnit writes the method's name before a reason, and an exception has its class.
        return _EXCEPTION.sub("", result.why.rpartition(" ==> ")[2]).splitlines()[0]
    return ""


def write(results: Mapping[str, Result], path: Path = RESULTS) -> None:
    """Write the list, sorted by name."""
    ordered = sorted(results.values(), key=lambda one: one.test)
    path.write_text("".join(f"{one.test}\t{one.outcome}\t{one.why}\n" for one in ordered))


def counts(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """Class -> the number of its tests with each outcome."""
    found: dict[str, Counter[str]] = {}
    for one in results:
        found.setdefault(class_of(one.test), Counter())[one.outcome] += 1
    return found


def class_of(test: str) -> str:
    """The name of a test's class, of the outer one if classes are nested."""
    return re.split("[#$]", test)[0]
