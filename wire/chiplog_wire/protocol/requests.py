"""Parses the header of a request: API, version, client id, and where the body begins.

A frame with an unknown API or version closes the connection, as in Kafka (`RequestHeader.parse` and
`RequestContext.parseRequest` throw, and `SocketServer` closes the channel): the format of an answer
is unknown without a known version. The exception is ApiVersions, where KIP-511 defines the answer
to an unknown version.
"""

import struct
from typing import Final, NamedTuple

from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import MALFORMED, Reader

# API, version, correlation id, length of the client id
_FIXED: Final = struct.Struct(">hhih")


class RequestHeader(NamedTuple):
    """The header of a request. The answer contains the correlation id again."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None

    @property
    def api_key(self) -> ApiKey:
        """The key of the API."""
        return self.api.key


class Request(NamedTuple):
    """One request whose body is not decoded yet; the view belongs to the frame."""

    header: RequestHeader
    body: memoryview


class UnsupportedApiVersions(NamedTuple):
    """An ApiVersions request in a version that is not supported.

    `codec.api_versions.encode_unsupported_version` answers it.
    """

    correlation_id: int


def parse_request(frame: memoryview) -> Request | UnsupportedApiVersions:
    """Read the header of a frame. Raises `ProtocolViolation`."""
    try:
        return _parse(frame)
    except MALFORMED as error:
        raise ProtocolViolation("malformed request header") from error


def _parse(frame: memoryview) -> Request | UnsupportedApiVersions:
    """Read the header of a frame. Raises `ProtocolViolation` or `MALFORMED`."""
    key, version, correlation_id, length = _FIXED.unpack_from(frame)
    api = APIS.get(key)
    if api is None:
        raise ProtocolViolation(f"unknown api key {key}")
    if not api.serves(version):
        if api.key is ApiKey.API_VERSIONS:
            return UnsupportedApiVersions(correlation_id)
        raise ProtocolViolation(f"unsupported version {version} of {api.name}")
    # The client id has a plain length in header 2 as well.
    body = _FIXED.size + max(length, 0)
    if length < -1 or body > len(frame):
        raise ProtocolViolation("client id is longer than its message")
    client_id = None if length < 0 else str(frame[_FIXED.size : body], "utf-8")
    if version >= api.flexible_from:
        body = _after_tagged_fields(frame, body)
    return Request(RequestHeader(api, version, correlation_id, client_id), frame[body:])


def _after_tagged_fields(frame: memoryview, position: int) -> int:
    """The position after the tagged fields that begin at `position`; usually there are none."""
    if frame[position] == 0:
        return position + 1
    reader = Reader(frame, compact=True)
    reader.position = position
    reader.skip_tagged_fields()
    return reader.position
