"""Java's properties files, in which Kafka's programs have their configuration.

The format is that of `java.util.Properties.load`: `key=value` or `key: value` per line, `#` and `!`
for comments, a backslash at the end of a line that continues in the next one, and escapes like
`\\t`, `\\u00e4` and `\\\\`. It is stricter in three ways, because each would hide a mistake: a key
may not be given twice, each line needs `=` or `:`, and blanks at the end of a value do not count.
"""

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r\n?|\n")
_LEADING_BLANKS: Final = " \t\f"
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A separator is not escaped; before it are pairs of other characters and backslashes.
_SETTING: Final = re.compile(r"(?P<key>(?:[^\\=:]|\\.)+)[=:](?P<value>.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Key -> value. Raises `ValueError` that begins with `line <number>:` for a key that is given
    twice or a line without `=` or `:`. It does not contain the line, which may have a password."""
    values: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, line in _logical_lines(text):
        setting = _SETTING.fullmatch(line)
        if setting is None:
            raise ValueError(f"line {number}: write key=value")
        key = _unescaped(setting["key"].rstrip())
        if key in values:
            raise ValueError(
                f"line {number}: {key} is already set in line {line_of[key]}; remove one of the two"
            )
        values[key], line_of[key] = _unescaped(setting["value"].strip()), number
    return values


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The settings as (number of the first line, text): without comments, and a line that ends with
    a backslash is joined with the next one."""
    found: list[tuple[int, str]] = []
    pending, first_number = "", 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_LEADING_BLANKS)
        if not pending:
            if not line.strip() or line[0] in "#!":
                continue
            first_number = number
        if _continues(line):
            pending += line[:-1]
            continue
        found.append((first_number, pending + line))
        pending = ""
    if pending:
        found.append((first_number, pending))
    return found


def _continues(line: str) -> bool:
    """Whether the line ends with a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    """The text without escapes; a backslash before any other character is left out, as in Java.
    Escapes are UTF-16: two may make one character, and half of one becomes U+FFFD."""

    def character(escape: re.Match[str]) -> str:
        after = escape[1]
        if len(after) > 1:
            return chr(int(after[1:], 16))
        return _ESCAPED_CHARACTERS.get(after, after)

    unescaped = _ESCAPE.sub(character, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
