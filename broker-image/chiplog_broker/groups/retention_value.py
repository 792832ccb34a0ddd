"""How long one group's offsets are kept: a record of ours, under a key that Kafka passes over.

It is in the group's own partition, so whoever coordinates the group knows it from the first moment:
offsets that are never to expire must not do so because the operator is away.

Value, version 0: `int64` milliseconds, -1 for ever.
"""

from typing import Final

from chiplog_broker.groups.fields import read_value
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, INT64, Reader

KEPT_FOR_EVER: Final = -1

_VERSION: Final = 0


def encode_retention_value(retention_ms: int) -> bytes:
    """Of -1 or more."""
    return INT16.pack(_VERSION) + INT64.pack(retention_ms)


def decode_retention_value(value: bytes, group: str) -> int:
    """Milliseconds, or -1. Raises `UnreadableGroupRecordError`."""
    return read_value(value, group, "a retention", _read)


def _read(reader: Reader, version: int) -> int:
    if version != _VERSION:
        raise ProtocolViolation("unknown version")
    (retention_ms,) = reader.unpack(INT64)
    if retention_ms < KEPT_FOR_EVER:
        raise ProtocolViolation(f"{retention_ms} ms")
    return int(retention_ms)
