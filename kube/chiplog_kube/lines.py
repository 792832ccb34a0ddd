"""A stream of bytes cut into lines, none longer than what was agreed."""

from collections.abc import Iterator


class LineTooLong(ValueError):  # noqa: N818 - named for what it says
    """A line does not end within the limit."""


class Lines:
    """Feed it chunks, take lines without their ends. Empty lines are left out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk. What follows the last line end is kept for the next
        one. Raises `LineTooLong`."""
        *line_ends, rest = chunk.split(b"\n")
        for line_end in line_ends:
            line = b"".join([*self._parts, line_end])
            self._parts.clear()
            self._size = 0
            if line.strip():
                yield line
        self._size += len(rest)
        if self._size > self._max_bytes:
            raise LineTooLong(f"a line of more than {self._max_bytes} bytes")
        if rest:
            self._parts.append(rest)
