"""The text format of Kafka's checkpoint files: a version, a count, and one entry per line.

The count is always verified, because it shows that the file is complete. Kafka's format has no
checksum. In files of offsets we add it as one more entry, with a topic name that no topic can have:
Kafka reads such a file as before, and uses the entries of partitions that it has.
"""

from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

VERSION = "0"
CHECKSUM: Final = "~crc32c"
"""The topic of the entry with the checksum, which no topic can have; its partition is 0."""


class CheckpointError(Exception):
    """The file is not a complete checkpoint."""


def format_lines(lines: Iterable[str]) -> bytes:
    """The content of a file without a checksum."""
    entries = list(lines)
    return _text(entries, len(entries))


def format_offsets(lines: Iterable[str]) -> bytes:
    """The content of a file of `topic partition offset` lines, with a checksum."""
    entries = list(lines)
    content = _text(entries, len(entries) + 1)
    return content + f"{CHECKSUM} 0 {crc32c(content)}\n".encode()


def parse_offsets(data: bytes) -> list[list[str]]:
    """The three fields of each entry; the checksum is verified and left out.

    Files of Kafka and of earlier versions have no checksum. Raises `CheckpointError`.
    """
    rows = parse_lines(data, columns=3)
    if rows and rows[-1][0] == CHECKSUM:
        content = data[: data.rindex(CHECKSUM.encode())]
        if rows.pop()[1:] != ["0", str(crc32c(content))]:
            raise CheckpointError("the checksum does not match")
    # A checksum entry elsewhere than at the end, or a damaged one: no topic name contains "~".
    if any(CHECKSUM[0] in row[0] for row in rows):
        raise CheckpointError("the checksum is not in the last line, or a topic name is wrong")
    return rows


def parse_lines(data: bytes, *, columns: int) -> list[list[str]]:
    """The fields of each entry, which has `columns` of them. Raises `CheckpointError`.

    An empty file has no entries: Kafka creates its files empty.
    """
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
        raise CheckpointError(
            f"the file has {len(rows)} entries, but its second line says {lines[1:2]}"
        )
    if any(len(row) != columns for row in rows):
        raise CheckpointError(f"an entry does not have {columns} fields")
    return rows


def _text(entries: list[str], count: int) -> bytes:
    return "".join(f"{line}\n" for line in (VERSION, str(count), *entries)).encode()
