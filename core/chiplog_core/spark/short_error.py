"""The one line of an error that users need, from a long error text of a launcher or a job.

Spark's errors contain the stack traces of the JVM, of Python, and of each cause: thousands of
characters. The whole text stays where it was written: in the driver's log, or in the status of the
launcher's own object.
"""

import re

MAX_ERROR_LENGTH = 1_000
MAX_READ_LENGTH = 1_000_000
"""Only the end of a longer text is searched; the last cause is there."""

# A line of a stack trace, of the JVM or of Python.
_CALL = re.compile(r"\s+(at\s+\S+\(|File \"|\.\.\. \d+ more)|Traceback \(most recent call last\)")
_CAUSE = "Caused by: "
_ERROR = re.compile(
    r"(?:Exception in thread \"[^\"]{0,200}\" )?"
    r"(?P<what>[A-Za-z_][\w.$]{0,200}(?:Error|Exception|Exit|Interrupt|Failure)(?:: .*)?)"
)


def short_error(text: str, limit: int = MAX_ERROR_LENGTH) -> str:
    """The last error in a stack trace, or the beginning of any other text, with at most `limit`
    characters."""
    stripped = text.strip()
    lines = stripped[-MAX_READ_LENGTH:].splitlines()
    if not any(_CALL.match(line) for line in lines):
        return _cut(stripped, limit)
    found = _last_error(lines) or next((line for line in lines if line.strip()), "")
    return _cut(found.strip(), limit)


def _last_error(lines: list[str]) -> str:
    """The error of the last cause: the Python error that it quotes, else its own message. Empty if
    there is none.

    Python prints the error after its stack trace, so the last one counts; the JVM prints it before,
    so the first one counts.
    """
    causes = [index for index, line in enumerate(lines) if line.lstrip().startswith(_CAUSE)]
    begin = causes[-1] if causes else 0
    errors = [match["what"] for line in lines[begin:] if (match := _ERROR.match(line)) is not None]
    quotes_python = any(line.lstrip().startswith('File "') for line in lines[begin:])
    if causes and not (quotes_python and errors):
        return lines[begin].lstrip().removeprefix(_CAUSE)
    if not errors:
        return ""
    return errors[-1] if quotes_python else errors[0]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
