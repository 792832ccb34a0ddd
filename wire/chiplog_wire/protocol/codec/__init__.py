"""Encodes and decodes the messages of every API.

Produce, Fetch, Metadata and ApiVersions have their own codecs, and the types of `messages`; commits
have the types of `offset_messages`; all other messages are kio's dataclasses. Handlers see one type
for each message, that of the newest version that we serve (see `generic`).
"""

from collections.abc import Callable
from typing import Any, Final

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import (
    api_versions,
    fetch_request,
    fetch_response,
    metadata,
    produce,
)
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.messages import Chunk
from chiplog_wire.protocol.reader import BROKERS_MAX_ELEMENTS, MALFORMED, MAX_ELEMENTS
from chiplog_wire.protocol.requests import Request, RequestHeader

_HOT_DECODERS: Final[dict[ApiKey, Callable[[int, memoryview], object]]] = {
    ApiKey.PRODUCE: produce.decode_request,
    ApiKey.METADATA: metadata.decode_request,
    ApiKey.API_VERSIONS: api_versions.decode_request,
}

_HOT_ENCODERS: Final[dict[ApiKey, Callable[[int, Any], bytes]]] = {
    ApiKey.PRODUCE: produce.encode_response,
    ApiKey.METADATA: metadata.encode_response,
    ApiKey.API_VERSIONS: api_versions.encode_response,
}


def decode_request(request: Request, *, of_broker: bool = False) -> object:
    """The message of a request: a type of `messages`, or kio's newest dataclass for that API.

    It may contain views into the frame. `of_broker`: another broker of the cluster sent it, whose
    Fetch may have more elements. Raises `ProtocolViolation`.
    """
    header, body = request
    decode = _HOT_DECODERS.get(header.api.key)
    try:
        if header.api.key is ApiKey.FETCH:
            max_elements = BROKERS_MAX_ELEMENTS if of_broker else MAX_ELEMENTS
            return fetch_request.decode_request(header.version, body, max_elements)
        if decode is not None:
            return decode(header.version, body)
        return _generic_decode(header, body)
    except MALFORMED as error:
        raise ProtocolViolation(f"malformed {header.api.name} request") from error


def encode_response(header: RequestHeader, message: Any) -> list[Chunk]:
    """The whole response with length and header, as pieces to send in order.

    A piece may be a `RecordSource` of a Fetch answer, unread; all others are bytes.
    """
    if header.api.key is ApiKey.FETCH:
        return fetch_response.encode_response(header, message)
    encode = _HOT_ENCODERS.get(header.api.key)
    if encode is not None:
        body = encode(header.version, message)
    else:
        body = _generic_encode(header, message)
    return [writer.frame_header(header, len(body)) + body]


# kio's serializers are imported with the first message that needs them, not at start-up.


def _generic_decode(header: RequestHeader, body: memoryview) -> object:
    """Decode a request by kio's schema, which is imported with the first such request."""
    from chiplog_wire.protocol.codec import generic, offsets  # noqa: PLC0415

    if decode := offsets.DECODERS.get(header.api.key):
        return decode(header.version, body)
    return generic.decode_request(header.api.key, header.version, body)


def _generic_encode(header: RequestHeader, message: object) -> bytes:
    """Encode the body of an answer by kio's schema."""
    from chiplog_wire.protocol.codec import generic, offsets  # noqa: PLC0415

    if encode := offsets.ENCODERS.get(header.api.key):
        return encode(header.version, message)
    return generic.encode_response(header.api.key, header.version, message)
