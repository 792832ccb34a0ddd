"""Figures that tests measured, shown together at the end of a run.

pytest hides the output of a passing test, but a measured figure should be seen beside its limit.
"""

from collections.abc import Iterable

_LINES: list[str] = []


def note(line: str) -> None:
    """Print a figure now, and again in the summary of the run."""
    print(line)
    _LINES.append(line)


def take(lines: Iterable[str]) -> None:
    """Add the figures that another process of this run measured."""
    _LINES.extend(lines)


def noted() -> tuple[str, ...]:
    """The lines of every figure of this run, in the order in which they were noted."""
    return tuple(_LINES)
