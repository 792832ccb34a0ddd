"""From a frame to a request: which API, which version, whose, and where the body begins.

A frame with an unknown API or version closes the connection. Kafka does the same
(`RequestHeader.parse` and `RequestContext.parseRequest` throw, and `SocketServer` closes
the channel): without the version nobody knows how an answer would have to look. The one
exception is ApiVersions, where KIP-511 fixes the answer to a version from the future.
"""

import struct
from typing import Final, NamedTuple

from chiplog_broker.protocol.apis import APIS, Api, ApiKey
from chiplog_broker.protocol.errors import ProtocolViolation
from chiplog_broker.protocol.reader import MALFORMED, Reader

_FIXED: Final = struct.Struct(">hhi")


class RequestHeader(NamedTuple):
    """Who asks for what. The answer carries the correlation id back."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None

    @property
    def api_key(self) -> ApiKey:
        """The API asked for."""
        return self.api.key


class Request(NamedTuple):
    """One request whose body is still bytes; the view belongs to the frame."""

    header: RequestHeader
    body: memoryview


class UnsupportedApiVersions(NamedTuple):
    """ApiVersions in a version we do not know.

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
    reader = Reader(frame, compact=False)
    key, version, correlation_id = reader.unpack(_FIXED)
    api = APIS.get(key)
    if api is None:
        raise ProtocolViolation(f"unknown api key {key}")
    if not api.serves(version):
        if api.key is ApiKey.API_VERSIONS:
            return UnsupportedApiVersions(correlation_id)
        raise ProtocolViolation(f"unsupported version {version} of {api.name}")
    # The client id has a plain length in header 2 as well.
    client_id = reader.nullable_string()
    if api.is_flexible(version):
        reader.skip_tagged_fields()
    header = RequestHeader(api, version, correlation_id, client_id)
    return Request(header, frame[reader.position :])
