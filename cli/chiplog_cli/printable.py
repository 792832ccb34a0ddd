"""Text that a terminal only shows.

Names, client ids and records come from others. Written out as they are, their control characters
move the cursor, change the title, or type: https://nvd.nist.gov/vuln/detail/CVE-2003-0063
"""

import re
from typing import Final

_LINES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IN_A_LINE: Final = re.compile(f"{_LINES.pattern}|[\\t\\n\u2028\u2029]")
"""Control characters (C0, DEL, C1), and those that change the direction of writing."""


def lines(text: str) -> str:
    """The text with its lines and tabs. Every other control character is escaped, like `\\x1b`."""
    return _LINES.sub(_escaped, text)


def in_a_line(text: str) -> str:
    """The text on one line, with every control character escaped."""
    return _IN_A_LINE.sub(_escaped, text)


def json_text(text: str) -> str:
    """A JSON text that is safe to print on a terminal, with the same meaning."""
    return _LINES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()
