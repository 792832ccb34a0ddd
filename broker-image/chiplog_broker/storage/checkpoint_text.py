"""The text form of checkpoint files: a version, a count, one line per entry, a checksum.

Version 0 is Kafka's, which has no checksum; earlier versions of this broker wrote it. The count
tells a whole file from a cut one, and the checksum tells what was written from what a disk made
of it. A version that changes from 1 to 0 leaves the checksum as an entry that is not counted.
"""

from collections.abc import Iterable

from chiplog_broker.ports.checksum_line import ChecksumError, with_checksum, without_checksum

VERSION = "1"
WITHOUT_CHECKSUM = "0"


class CheckpointError(Exception):
    """The file is not a whole checkpoint."""


def format_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    text = "".join(f"{line}\n" for line in (VERSION, str(len(entries)), *entries))
    return with_checksum(text.encode())


def parse_lines(data: bytes, *, columns: int) -> list[list[str]]:
    """The fields of each entry. An empty file, which Kafka makes first, has none."""
    try:
        content, is_checked = without_checksum(data)
        lines = content.decode().splitlines()
    except ChecksumError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError:
        raise CheckpointError("the file is not text") from None
    if not lines:
        return []
    if lines[0] != (VERSION if is_checked else WITHOUT_CHECKSUM):
        raise CheckpointError(f"version {lines[0]!r} is not known, or lacks its checksum")
    rows = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1] != str(len(rows)):
        raise CheckpointError(f"{len(rows)} entries, the file says {lines[1:2]}")
    if any(len(row) != columns for row in rows):
        raise CheckpointError(f"an entry without {columns} fields")
    return rows
