"""The last line of a small text file: the CRC-32C of every byte before it.

A disk may change a bit without a word. In a segment the checksums of the batches tell; in a small
file a digit that became another digit would be believed.
"""

from crc32c import crc32c

_NAME = b"crc32c "
_DIGITS_AND_END_BYTES = 9


class ChecksumError(ValueError):
    """The bytes are not those that were written."""


def with_checksum(content: bytes, mark: bytes = b"") -> bytes:
    """`content`, which ends with a line break, and the line; `mark` makes it a comment there."""
    return content + _line_for(content, mark)


def without_checksum(data: bytes, mark: bytes = b"") -> bytes:
    """The content, checked if a checksum is there: files of earlier versions have none.

    Where a bit of the line itself changed, so that nobody takes it for one, it is left in the
    content, which then has a line too many. Raises `ChecksumError`.
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
    return b"%s%s%08x\n" % (mark, _NAME, crc32c(content))
