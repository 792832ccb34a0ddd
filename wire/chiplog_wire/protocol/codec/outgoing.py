"""The client's side of all messages without a codec of their own: encodes requests, decodes
answers.

Both are kio's dataclasses of the used version. Answers are read with our own limits: before a login
is complete, they may come from any process at the address.
"""

from functools import cache
from typing import Any

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.codec.generic import Read, structure_reader, write_exactly
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import MALFORMED, Reader


def encode_request(message: Any) -> bytes:
    """The body of a request, given as kio's dataclass of its version."""
    return write_exactly(message)


def decode_response(key: ApiKey, version: int, body: memoryview) -> Any:
    """An answer as kio's dataclass of that version. Raises `ProtocolViolation`."""
    try:
        return _response_reader(key, version)(Reader(body, compact=APIS[key].is_flexible(version)))
    except MALFORMED as error:
        raise ProtocolViolation(f"malformed {APIS[key].name} response") from error


@cache
def _response_reader(key: ApiKey, version: int) -> Read:
    """A function that reads the answers of one API and version; creating it takes long."""
    response = schema.response_class(key, version)
    return structure_reader(response, response)
