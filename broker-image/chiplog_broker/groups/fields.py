"""Helpers that all keys and values of `__consumer_offsets` share."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from chiplog_broker.groups.errors import UnreadableGroupRecordError, UnstorableGroupRecordError
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, UNREADABLE, Reader

T = TypeVar("T")

FLEXIBLE_VERSION: Final = 4
"""The newest version of `OffsetCommitValue` and `GroupMetadataValue`, and the first flexible one.
Kafka adds only tagged fields to it, which older readers skip (KIP-915)."""


def read_value(value: bytes, group: str, name: str, read: Callable[[Reader, int], T]) -> T:
    """Decode a value: read the version, and call `read` with a reader of the rest and the version.

    `group` and `name`, the kind of value, are for the message of `UnreadableGroupRecordError`,
    which is raised if anything in the value is invalid.
    """
    version = None
    try:
        (version,) = INT16.unpack_from(value)
        if not 0 <= version <= FLEXIBLE_VERSION:
            raise ProtocolViolation("unknown version")
        reader = Reader(memoryview(value)[INT16.size :], compact=version == FLEXIBLE_VERSION)
        result = read(reader, version)
        reader.finish()
    except UNREADABLE as error:
        raise UnreadableGroupRecordError(
            f"{name} of version {version}, group {group!r}: {error}", group=group, version=version
        ) from error
    return result


@contextmanager
def storing(name: str) -> Iterator[None]:
    """A context for encoding. It raises `UnstorableGroupRecordError` if a text or number is too
    large for its field; the message begins with `name`."""
    try:
        yield
    except struct.error as error:
        raise UnstorableGroupRecordError(f"{name}: {error}") from error
