"""The text form of all of Kafka's checkpoint files: version 0, a count, one line per entry.

The count is what tells a whole file from a cut one, so it is always checked. Kafka has no checksum
there. Where offsets are kept by partition it may stand in the place of one more entry, of a topic
that can be none: Kafka reads the file as before, and looks for the partitions that it has.
"""

from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

VERSION = "0"
CHECKSUM: Final = "~crc32c"
"""In the place of a topic, which has no such character; the partition is 0."""


class CheckpointError(Exception):
    """The file is not a whole checkpoint."""


def format_lines(lines: Iterable[str]) -> bytes:
    """A file without a checksum."""
    entries = list(lines)
    return _text(entries, len(entries))


def format_offsets(lines: Iterable[str]) -> bytes:
    """A file of `topic partition offset` lines, and the checksum of all before it."""
    entries = list(lines)
    content = _text(entries, len(entries) + 1)
    return content + f"{CHECKSUM} 0 {crc32c(content)}\n".encode()


def parse_offsets(data: bytes) -> list[list[str]]:
    """The fields of each entry but the checksum. Kafka, and earlier versions, write none."""
    rows = parse_lines(data, columns=3)
    if rows and rows[-1][0] == CHECKSUM:
        content = data[: data.rindex(CHECKSUM.encode())]
        if rows.pop()[1:] != ["0", str(crc32c(content))]:
            raise CheckpointError("the checksum does not match")
    if any(CHECKSUM[0] in row[0] for row in rows):
        raise CheckpointError("an entry without a topic")
    return rows


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


def _text(entries: list[str], count: int) -> bytes:
    return "".join(f"{line}\n" for line in (VERSION, str(count), *entries)).encode()
