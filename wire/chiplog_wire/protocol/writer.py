"""Kafka's primitive types as bytes, and the frame around a finished body.

Encoders collect byte strings in a list and join them once. `string` and `compact_string` cache
encoded text, because the same names of topics and hosts are part of every response.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final
from uuid import UUID

from chiplog_wire.protocol.messages import NodeEndpoint
from chiplog_wire.protocol.requests import RequestHeader

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")
_HEADER_1: Final = struct.Struct(">iib")

ZERO_UUID: Final = bytes(16)
NO_TAGS: Final = b"\x00"

# Names of topics have at most 249 characters. Longer text is an error message or an attack, and a
# cache of it would let a client decide how much memory is used.
_CACHED_LENGTH: Final = 255
_CACHED_STRINGS: Final = 4096

_ONE_BYTE: Final = [bytes([value]) for value in range(128)]


def uvarint(value: int) -> bytes:
    """An unsigned number of variable length: seven bits in each byte, low ones first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str) -> bytes:
    """Text with a two-byte length."""
    return _string(value) if len(value) <= _CACHED_LENGTH else _encode_string(value)


def compact_string(value: str) -> bytes:
    """Text with a varint length."""
    return _compact_string(value) if len(value) <= _CACHED_LENGTH else _encode_compact_string(value)


def _encode_string(value: str) -> bytes:
    raw = value.encode()
    return INT16.pack(len(raw)) + raw


def _encode_compact_string(value: str) -> bytes:
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


_string: Final[Callable[[str], bytes]] = lru_cache(_CACHED_STRINGS)(_encode_string)
_compact_string: Final[Callable[[str], bytes]] = lru_cache(_CACHED_STRINGS)(_encode_compact_string)


def nullable_string(value: str | None) -> bytes:
    """Text with a two-byte length, or null."""
    return b"\xff\xff" if value is None else string(value)


def compact_nullable_string(value: str | None) -> bytes:
    """Text with a varint length, or null."""
    return b"\x00" if value is None else compact_string(value)


def uuid(value: UUID | None) -> bytes:
    """An id; all zero for None."""
    return ZERO_UUID if value is None else value.bytes


def count(value: int, *, compact: bool) -> bytes:
    """The number of elements of an array."""
    return uvarint(value + 1) if compact else INT32.pack(value)


def tagged_fields(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """The tagged fields of a structure, given in ascending order of tag."""
    present = [uvarint(tag) + uvarint(len(value)) + value for tag, value in fields]
    return uvarint(len(present)) + b"".join(present)


def node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The value of the tagged field `NodeEndpoints` (KIP-951)."""
    parts = [uvarint(len(endpoints) + 1)]
    for endpoint in endpoints:
        parts += (
            INT32.pack(endpoint.node_id),
            compact_string(endpoint.host),
            INT32.pack(endpoint.port),
            compact_nullable_string(endpoint.rack),
            NO_TAGS,
        )
    return b"".join(parts)


def frame_header(header: RequestHeader, body_bytes: int) -> bytes:
    """The beginning of a response: the length of the frame, and the response header.

    The length counts 4 bytes of correlation id and, in header 1, an empty list of tagged fields.
    """
    if header.api.response_header_version(header.version) == 0:
        return _HEADER.pack(body_bytes + 4, header.correlation_id)
    return _HEADER_1.pack(body_bytes + 5, header.correlation_id, 0)
