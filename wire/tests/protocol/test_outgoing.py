"""What we ask other brokers and read from them, against kio at the other end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import outgoing, schema
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.requests import Request, RequestHeader

Messages = Callable[[type[Any]], Iterator[Any]]
KioBytes = Callable[[Any], bytes]
# Those that brokers ask each other, but for Fetch, whose records nobody wants as objects.
ASKED = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
}


def test_answers_are_read_as_kio_wrote_them(
    api: Api, version: int, messages: Messages, kio_bytes: KioBytes
) -> None:
    if api.key not in ASKED:
        return
    for theirs in messages(schema.response_class(api.key, version)):
        ours = outgoing.decode_response(api.key, version, memoryview(kio_bytes(theirs)))
        assert ours == theirs


def test_our_own_codec_reads_our_requests(
    api: Api, version: int, messages: Messages, header: Callable[[Api, int], RequestHeader]
) -> None:
    if api.key not in ASKED or version < api.max_version or api.key is ApiKey.API_VERSIONS:
        return
    for message in messages(schema.request_class(api.key, version)):
        body = memoryview(outgoing.encode_request(message))
        assert codec.decode_request(Request(header(api, version), body)) == message


def test_an_error_we_do_not_know_is_an_error() -> None:
    body = memoryview((32_000).to_bytes(2) + (0).to_bytes(4))
    answer = outgoing.decode_response(ApiKey.SASL_HANDSHAKE, 1, body)
    assert answer.error_code is ErrorCode.unknown_server_error


@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x09abc"]
)
def test_a_malformed_answer_is_a_violation(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        outgoing.decode_response(ApiKey.SASL_HANDSHAKE, 1, memoryview(body))


def test_every_requested_api_is_served() -> None:
    assert set(APIS) >= ASKED
