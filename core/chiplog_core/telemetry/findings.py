"""The findings of the checks that users run: `chiplog check` and `helm test`."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    """What was checked, for users."""
    problem: str = ""
    """What is wrong; empty if nothing is."""


def are_ok(findings: Iterable[Finding]) -> bool:
    """Whether no check found a problem."""
    return not any(finding.problem for finding in findings)
