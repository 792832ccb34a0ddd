"""Reads Kafka's primitive types from untrusted bytes.

Every length and count is compared with the remaining bytes before it is used; KAFKA-14063 and a
library that aborts its process on a count of 2^31-1 show what happens otherwise. The number of
array elements of a message is limited, too, to `MAX_ELEMENTS`: an element of one byte costs us a
hundred bytes.

Python's errors for missing bytes and invalid UTF-8 (`MALFORMED`) are not caught here: the caller
that reads the whole message converts them to `ProtocolViolation`, so the hot path has one `try`.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from chiplog_wire.protocol.errors import ProtocolViolation

MALFORMED: Final = (struct.error, IndexError, UnicodeDecodeError)

UNREADABLE: Final = (ProtocolViolation, *MALFORMED)
"""The errors that a `Reader` raises for bytes that do not follow a schema."""

MAX_ELEMENTS: Final = 40_000
"""Array elements and tagged fields in one message: 20,000 partitions, as many as a fetch session
holds, if each has a topic of its own."""

BROKERS_MAX_ELEMENTS: Final = 1_000_000
"""The same limit for a Fetch between brokers: a follower requests all partitions that it follows
from one leader, and may repeat the topic with each of them."""

MAX_TAGGED_FIELDS: Final = 256
"""Tagged fields in one structure. Kafka's own messages have at most five."""

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
FLOAT64: Final = struct.Struct(">d")

_UUID_BYTES: Final = 16
_ZERO_UUID: Final = bytes(_UUID_BYTES)
_MAX_VARINT_BYTES: Final = 5


class Reader:
    """Reads a message from a position on. `compact`: lengths are those of flexible versions
    (KIP-482)."""

    __slots__ = ("_allowance", "_end", "buffer", "compact", "position")

    def __init__(
        self, buffer: memoryview, *, compact: bool, allowance: list[int] | None = None
    ) -> None:
        """`allowance` has one item, the number of elements that may still be read: a list, because
        readers of the same message share it."""
        self.buffer = buffer
        self.compact = compact
        self.position = 0
        self._end = len(buffer)
        self._allowance = [MAX_ELEMENTS] if allowance is None else allowance

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next fields of fixed size, in this layout."""
        values = layout.unpack_from(self.buffer, self.position)
        self.position += layout.size
        return values

    # The following methods repeat some code: an extra call in each would take a fifth of the time
    # of decoding a small Produce.

    def int16(self) -> int:
        """A signed 16-bit number."""
        position = self.position
        self.position = position + 2
        value: int = INT16.unpack_from(self.buffer, position)[0]
        return value

    def int32(self) -> int:
        """A signed 32-bit number."""
        position = self.position
        self.position = position + 4
        value: int = INT32.unpack_from(self.buffer, position)[0]
        return value

    def boolean(self) -> bool:
        """A boolean: any byte but 0 is true."""
        value = self.buffer[self.position]
        self.position += 1
        return value != 0

    def uvarint(self) -> int:
        """An unsigned 32-bit number in one to five bytes."""
        position = self.position
        value = self.buffer[position]
        if value >= 0x80:
            return self._long_uvarint()
        self.position = position + 1
        return value

    def nullable_count(self) -> int:
        """The number of elements of an array; -1 if the array is null."""
        count = self.uvarint() - 1 if self.compact else self.int32()
        # No element takes less than a byte.
        if not -1 <= count <= self._end - self.position:
            raise ProtocolViolation("array count is negative or beyond the end of the message")
        self._charge(count)
        return count

    def count(self) -> int:
        """The number of elements of an array that may not be null."""
        count = self.nullable_count()
        if count < 0:
            raise ProtocolViolation("array is null where it must not be")
        return count

    def nullable_string(self) -> str | None:
        """UTF-8 text or null."""
        length = self.uvarint() - 1 if self.compact else self.int16()
        return None if length == -1 else str(self._take(length), "utf-8")

    def string(self) -> str:
        """UTF-8 text."""
        length = self.uvarint() - 1 if self.compact else self.int16()
        if length == -1:
            raise ProtocolViolation("string is null where it must not be")
        return str(self._take(length), "utf-8")

    def nullable_view(self) -> memoryview | None:
        """Bytes or records as a view into the message; None if they are null."""
        length = self.uvarint() - 1 if self.compact else self.int32()
        return None if length == -1 else self._take(length)

    def uuid(self) -> UUID | None:
        """An id; None for the all-zero one, which Kafka uses for "no id"."""
        start = self.position
        raw = bytes(self.buffer[start : start + _UUID_BYTES])
        if len(raw) < _UUID_BYTES:
            raise ProtocolViolation("uuid beyond the end of the message")
        self.position = start + _UUID_BYTES
        return None if raw == _ZERO_UUID else _uuid(raw)

    def tagged_fields(self) -> dict[int, "Reader"]:
        """The tagged fields of a structure by tag, each as a reader of its value."""
        return {
            tag: Reader(self._take(size), compact=self.compact, allowance=self._allowance)
            for tag, size in self._tagged_sizes()
        }

    def skip_tagged_fields(self) -> None:
        """Skip the tagged fields of a structure without known tags."""
        if self.buffer[self.position] == 0:
            self.position += 1
            return
        for _, size in self._tagged_sizes():
            # Sizes are limited by the remaining bytes, as counts are.
            if size > self._end - self.position:
                raise ProtocolViolation("length is beyond the end of the message")
            self.position += size

    def finish(self) -> None:
        """Check that no bytes are left at the end of a field with a given size.

        It is not called for whole messages. Kafka ignores bytes after a message, and librdkafka
        relies on that: its Metadata request for all topics, from version 9, ends in three extra
        bytes.
        """
        if self.position != self._end:
            raise ProtocolViolation("bytes after the end of a field")

    def _tagged_sizes(self) -> Iterator[tuple[int, int]]:
        """Tag and size of each tagged field. The caller must read or skip the value of each before
        it takes the next."""
        count = self.uvarint()
        if count > MAX_TAGGED_FIELDS:
            raise ProtocolViolation(f"more than {MAX_TAGGED_FIELDS} tagged fields")
        self._charge(count)
        last_tag = -1
        for _ in range(count):
            tag = self.uvarint()
            if tag <= last_tag:
                raise ProtocolViolation("tagged fields are not in ascending order")
            last_tag = tag
            yield tag, self.uvarint()

    def _charge(self, count: int) -> None:
        """Count this many more elements; a null array, whose count is -1, has none."""
        allowance = self._allowance
        allowance[0] -= max(count, 0)
        if allowance[0] < 0:
            raise ProtocolViolation("too many array elements and tagged fields")

    def _take(self, length: int) -> memoryview:
        """The next `length` bytes."""
        start = self.position
        end = start + length
        if not start <= end <= self._end:
            raise ProtocolViolation("length is negative or beyond the end of the message")
        self.position = end
        return self.buffer[start:end]

    def _long_uvarint(self) -> int:
        """An unsigned 32-bit number in two to five bytes."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.buffer[self.position + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise ProtocolViolation("varint of more than five bytes")
        if value >= 1 << 32:
            raise ProtocolViolation("varint of more than 32 bits")
        self.position += index + 1
        return value


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """The id with these bytes. Cached, because topic ids come with every request, and creating a
    `UUID` takes a microsecond."""
    return UUID(bytes=raw)
