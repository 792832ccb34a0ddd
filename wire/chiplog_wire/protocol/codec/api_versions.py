"""ApiVersions 0-4: the first request of every client.

The list of APIs never changes at run time, so the body of each version is created once. Of Kafka's
features (KIP-584) only the supported ones are listed. By `transaction.version` clients use the
second generation of transactions (KIP-890). `group.version` is not listed (KIP-848).
"""

import struct
from collections.abc import Iterable
from functools import cache
from typing import Final

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.apis import APIS, METADATA_VERSION, Api, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from chiplog_wire.protocol.reader import Reader

_RANGE: Final = struct.Struct(">hhh")
_LEVELS: Final = struct.Struct(">hh")
_INT64: Final = struct.Struct(">q")
_FRAME: Final = struct.Struct(">ii")

_TAG_SUPPORTED_FEATURES: Final = 0
_TAG_FEATURES_EPOCH: Final = 1
_TAG_FINALIZED_FEATURES: Final = 2
_FEATURES_EPOCH: Final = 1
"""The number of changes that releases have made to the finalized features. Java ignores a change
without a higher epoch; -1 would mean that they are unknown."""
FEATURES: Final = {
    "eligible.leader.replicas.version": 1,
    "metadata.version": METADATA_VERSION,
    "transaction.version": 2,
}
"""Finalized features. Clients before Kafka 3.9 close the connection if a level can be 0."""

_THROTTLE_FROM: Final = 1
_FLEXIBLE_FROM: Final = 3


def decode_request(version: int, body: memoryview) -> ApiVersionsRequest:
    """The request; empty names before version 3. Raises `ProtocolViolation` or `MALFORMED`."""
    reader = Reader(body, compact=True)
    request = ApiVersionsRequest()
    if version >= _FLEXIBLE_FROM:
        request = ApiVersionsRequest(reader.string(), reader.string())
        reader.skip_tagged_fields()
    return request


def encode_response(version: int, response: ApiVersionsResponse) -> bytes:
    """The body of the answer: the error, the served APIs and the features."""
    parts = [writer.INT16.pack(response.error_code), _ranges(version)]
    if version >= _THROTTLE_FROM:
        parts.append(writer.INT32.pack(response.throttle_time_ms))
    if version >= _FLEXIBLE_FROM:
        parts.append(_features())
    return b"".join(parts)


def encode_unsupported_version(correlation_id: int) -> bytes:
    """The frame that answers an unknown version (KIP-511).

    It has the layout of version 0, and its list has only the served versions of ApiVersions:
    franz-go retries with a lower version only after exactly this list.
    """
    body = writer.INT16.pack(ErrorCode.unsupported_version) + _encode_ranges(
        [APIS[ApiKey.API_VERSIONS]], flexible=False
    )
    return _FRAME.pack(len(body) + 4, correlation_id) + body


@cache
def _ranges(version: int) -> bytes:
    """The list of all APIs with their versions, in the layout of this version of ApiVersions."""
    return _encode_ranges(APIS.values(), flexible=version >= _FLEXIBLE_FROM)


@cache
def _features() -> bytes:
    """The tagged fields at the end of the answer: supported features from level 1 on, and the
    levels in force."""
    supported = finalized = writer.count(len(FEATURES), compact=True)
    for name, level in FEATURES.items():
        encoded_name = writer.compact_string(name)
        supported += encoded_name + _LEVELS.pack(1, level) + writer.NO_TAGS
        finalized += encoded_name + _LEVELS.pack(level, level) + writer.NO_TAGS
    return writer.tagged_fields(
        [
            (_TAG_SUPPORTED_FEATURES, supported),
            (_TAG_FEATURES_EPOCH, _INT64.pack(_FEATURES_EPOCH)),
            (_TAG_FINALIZED_FEATURES, finalized),
        ]
    )


def _encode_ranges(apis: Iterable[Api], *, flexible: bool) -> bytes:
    """A list of APIs, each with its key, lowest and highest version."""
    tags = writer.NO_TAGS if flexible else b""
    entries = [_RANGE.pack(api.key, api.min_version, api.max_version) + tags for api in apis]
    return writer.count(len(entries), compact=flexible) + b"".join(entries)
