"""Parts of docs/compatibility.md: what became of Kafka's own tests."""

from collections import Counter
from collections.abc import Iterable

from docs.tables import table
from e2e.compat import lists
from e2e.compat.lists import FAILED, OUTCOMES, SKIPPED, class_of

MOST_NAMES = 12
"""How many tests a row names."""


def totals() -> str:
    """The table with the numbers of each class, and of all."""
    counts = lists.counts(lists.listed().values())
    counts["**all**"] = sum(counts.values(), Counter())
    rows = ((name, *(str(of[outcome]) for outcome in OUTCOMES)) for name, of in counts.items())
    return table(("Class", *OUTCOMES), rows)


def failures() -> str:
    """The table of causes, with the tests that fail for each."""
    return by_reason(FAILED)


def skips() -> str:
    """The table of reasons, with the tests that are skipped for each."""
    return by_reason(SKIPPED)


def by_reason(outcome: str) -> str:
    """A table of the reasons for an outcome, the most frequent first."""
    tests: dict[str, list[str]] = {}
    for one in lists.listed().values():
        if one.outcome == outcome:
            tests.setdefault(one.why, []).append(one.test)
    frequent_first = sorted(tests.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = ((why, str(len(of)), named(of)) for why, of in frequent_first)
    return table(("Reason", "Tests", "Which"), rows)


def named(tests: Iterable[str]) -> str:
    """The tests, or their classes where there are many."""
    of = list(tests)
    shown = of if len(of) <= MOST_NAMES else sorted(set(map(class_of, of)))
    return ", ".join(f"`{one}`" for one in shown)
