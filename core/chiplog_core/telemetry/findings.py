"""What a check that a person runs has checked: `chiplog check` and `helm test`."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; it is in order where there is no `problem`."""

    what: str
    problem: str = ""


def are_ok(findings: Iterable[Finding]) -> bool:
    """Whether everything is in order."""
    return not any(finding.problem for finding in findings)
