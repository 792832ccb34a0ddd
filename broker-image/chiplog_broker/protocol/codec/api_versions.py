"""ApiVersions 0-4: the first thing every client says, answered from memory.

The list of APIs never changes while we run, so each version's body is made once. No
feature is finalized: clients then use the first form of transactions (KIP-890).
"""

import struct
from collections.abc import Iterable
from functools import cache
from typing import Final

from chiplog_broker.protocol import writer
from chiplog_broker.protocol.apis import APIS, Api, ApiKey
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from chiplog_broker.protocol.reader import Reader

_RANGE: Final = struct.Struct(">hhh")
_FRAME: Final = struct.Struct(">ii")

_THROTTLE_FROM: Final = 1
_FLEXIBLE_FROM: Final = 3


def decode_request(version: int, body: memoryview) -> ApiVersionsRequest:
    """Raises `ProtocolViolation` or `MALFORMED`."""
    reader = Reader(body, compact=True)
    request = ApiVersionsRequest()
    if version >= _FLEXIBLE_FROM:
        request = ApiVersionsRequest(reader.string(), reader.string())
        reader.skip_tagged_fields()
    return request


def encode_response(version: int, response: ApiVersionsResponse) -> bytes:
    """The body of the answer."""
    parts = [writer.INT16.pack(response.error_code), _ranges(version)]
    if version >= _THROTTLE_FROM:
        parts.append(writer.INT32.pack(response.throttle_time_ms))
    if version >= _FLEXIBLE_FROM:
        parts.append(writer.NO_TAGS)
    return b"".join(parts)


def encode_unsupported_version(correlation_id: int) -> bytes:
    """The whole frame that answers a version we do not know (KIP-511).

    In the layout of version 0, with our range of ApiVersions as the only entry: franz-go
    tries again with a lower version only if the list is exactly that.
    """
    body = writer.INT16.pack(ErrorCode.unsupported_version) + _encode_ranges(
        [APIS[ApiKey.API_VERSIONS]], flexible=False
    )
    return _FRAME.pack(len(body) + 4, correlation_id) + body


@cache
def _ranges(version: int) -> bytes:
    return _encode_ranges(APIS.values(), flexible=version >= _FLEXIBLE_FROM)


def _encode_ranges(apis: Iterable[Api], *, flexible: bool) -> bytes:
    tags = writer.NO_TAGS if flexible else b""
    entries = [_RANGE.pack(api.key, api.min_version, api.max_version) + tags for api in apis]
    return writer.count(len(entries), compact=flexible) + b"".join(entries)
