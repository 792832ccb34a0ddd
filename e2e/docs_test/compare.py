"""Whether a command printed what the page says, and where it did not.

Beside what `masks` hides, the page itself may leave something open: `…` within a line stands for
any text, and a line that is nothing but `…` for any lines, or none.
"""

import re
from difflib import unified_diff
from typing import Final

from e2e.docs_test.masks import masked

OPEN: Final = "…"


def difference(expected: str, printed: str) -> str:
    """Empty where it is as the page says, else both sides' lines, marked as in a diff."""
    wanted, found = masked(expected), masked(printed)
    if pattern(wanted).fullmatch("".join(f"{line}\n" for line in found)):
        return ""
    return "\n".join(unified_diff(wanted, found, "the page", "printed", lineterm="", n=100))


def pattern(lines: list[str]) -> "re.Pattern[str]":
    """What the masked lines of a page stand for."""
    return re.compile("".join(map(_line, lines)))


def _line(line: str) -> str:
    if line.strip() == OPEN:
        return r"(?:[^\n]*\n)*?"
    return r"[^\n]*?".join(map(re.escape, line.split(OPEN))) + r"\n"
