"""A checksum as the last line of small text files: the CRC-32C of all bytes before it.

A disk may change bits without an error. Batches in segments have checksums of their own; in a small
file a changed digit would not be noticed.
"""

from crc32c import crc32c

_NAME = b"crc32c "
_DIGITS_AND_END_BYTES = 9


class ChecksumError(ValueError):
    """The content does not match its checksum."""


def with_checksum(content: bytes, mark: bytes = b"") -> bytes:
    """`content`, which must end with a line feed, and the checksum line.

    `mark` is put before the checksum, so that the line is a comment in the file's format.
    """
    return content + _line_for(content, mark)


def without_checksum(data: bytes, mark: bytes = b"") -> bytes:
    """The content without its checksum line. Files of earlier versions have no such line.

    If a bit of the line itself changed, it may not be recognized; then it stays in the content as
    an extra line. Raises `ChecksumError`.
    """
    name = mark + _NAME
    size = len(name) + _DIGITS_AND_END_BYTES
    content, line = data[:-size], data[-size:]
    if not line.startswith(name):
        return data
    if line != _line_for(content, mark):
        raise ChecksumError("the checksum does not match")
    return content


def _line_for(content: bytes, mark: bytes) -> bytes:
    """The checksum line: the mark, the name of the checksum, and 8 hexadecimal digits."""
    return b"%s%s%08x\n" % (mark, _NAME, crc32c(content))
