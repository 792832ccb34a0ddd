"""The record of a group's own offset retention, under a key that Kafka ignores.

It is stored in the group's own partition, so its coordinator always knows it: offsets that must
never expire do not depend on the operator.

Value, version 0: `int64` milliseconds, -1 for ever.
"""

from typing import Final

from chiplog_broker.groups.fields import read_value
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, INT64, Reader

KEPT_FOR_EVER: Final = -1

_VERSION: Final = 0


def encode_retention_value(retention_ms: int) -> bytes:
    """The retention as bytes. It is -1, for ever, or more."""
    return INT16.pack(_VERSION) + INT64.pack(retention_ms)


def decode_retention_value(value: bytes, group: str) -> int:
    """The retention of this group in milliseconds, -1 for ever. Raises
    `UnreadableGroupRecordError`."""
    return read_value(value, group, "a retention", _read)


def _read(reader: Reader, version: int) -> int:
    """The retention in milliseconds, -1 for ever. Raises `ProtocolViolation`."""
    if version != _VERSION:
        raise ProtocolViolation("unknown version")
    (retention_ms,) = reader.unpack(INT64)
    if retention_ms < KEPT_FOR_EVER:
        raise ProtocolViolation(f"the retention is {retention_ms} ms")
    return int(retention_ms)
