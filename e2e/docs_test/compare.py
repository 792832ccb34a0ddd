"""Compares what a command printed with the output on the page.

Changing parts like times are hidden by `masks`. In addition, `…` on the page stands for any text
within a line, and a line with nothing but `…` for any number of lines, or none.
"""

import re
from difflib import unified_diff
from typing import Final

from e2e.docs_test.masks import masked

OPEN: Final = "…"


def difference(expected: str, printed: str) -> str:
    """A unified diff of the masked outputs; empty where `printed` fits what the page expects."""
    wanted, found = masked(expected), masked(printed)
    if pattern(wanted).fullmatch("".join(f"{line}\n" for line in found)):
        return ""
    return "\n".join(unified_diff(wanted, found, "the page", "printed", lineterm="", n=100))


def pattern(lines: list[str]) -> "re.Pattern[str]":
    """A regular expression for all outputs that fit these masked lines of a page."""
    return re.compile("".join(map(_line, lines)))


def _line(line: str) -> str:
    """The regular expression for one line of a page, in which `…` is a wildcard."""
    if line.strip() == OPEN:
        return r"(?:[^\n]*\n)*?"
    return r"[^\n]*?".join(map(re.escape, line.split(OPEN))) + r"\n"
