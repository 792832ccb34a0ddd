"""Figures that tests measured, shown together at the end of a run.

What a passing test prints is not seen; a figure beside its limit should be.
"""

from collections.abc import Iterable

_LINES: list[str] = []


def note(line: str) -> None:
    """Print a figure now, and again in the summary of the run."""
    print(line)
    _LINES.append(line)


def take(lines: Iterable[str]) -> None:
    """Figures of another process of this run."""
    _LINES.extend(lines)


def noted() -> tuple[str, ...]:
    """Every figure of this run, in order."""
    return tuple(_LINES)
