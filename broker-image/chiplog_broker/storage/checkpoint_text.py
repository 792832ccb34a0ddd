"""The text form of all of Kafka's checkpoint files: version 0, a count, one line per entry.

The count is what tells a whole file from a cut one, so it is always checked.
"""

from collections.abc import Iterable

VERSION = "0"


class CheckpointError(Exception):
    """The file is not a whole checkpoint."""


def format_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, str(len(entries)), *entries)).encode()


def parse_lines(data: bytes, *, columns: int) -> list[list[str]]:
    """The fields of each entry. An empty file, which Kafka makes first, has none."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointError("the file is not text") from None
    if not lines:
        return []
    if lines[0] != VERSION:
        raise CheckpointError(f"version {lines[0]!r} is not known")
    rows = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1] != str(len(rows)):
        raise CheckpointError(f"{len(rows)} entries, the file says {lines[1:2]}")
    if any(len(row) != columns for row in rows):
        raise CheckpointError(f"an entry without {columns} fields")
    return rows
