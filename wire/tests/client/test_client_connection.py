"""Requests to bytes and bytes to answers, however the bytes come."""

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.client.connection import COPIED_BYTES, Answer, ClientConnection, encoded
from chiplog_wire.client.errors import NoCommonVersion
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import outgoing, schema
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.requests import Request, parse_request

SERVED = [
    (api, version)
    for api in APIS.values()
    for version in range(api.min_served, api.max_version + 1)
]
SIZES = st.one_of(
    st.integers(0, 300), st.sampled_from([COPIED_BYTES, COPIED_BYTES + 1, 4 * COPIED_BYTES])
)

Came = list[tuple[int, bytes]]
"""(correlation id, body) of each answer."""


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def answer_to(correlation_id: int, api: Api, version: int, body: bytes) -> bytes:
    """What a broker sends."""
    tags = b"\x00" if api.response_header_version(version) == 1 else b""
    return framed(struct.pack(">i", correlation_id) + tags + body)


def asking(*calls: tuple[Api, int], limit_bytes: int = 2**20) -> ClientConnection:
    """A client that has sent these."""
    client = ClientConnection("tester", limit_bytes)
    for api, version in calls:
        client.send(api.key, version, [b""])
    return client


def taken(client: ClientConnection) -> tuple[list[Answer], str]:
    """The answers that are there, and the violation behind them."""
    found: list[Answer] = []
    try:
        while (answer := client.next_answer()) is not None:
            found.append(answer)
    except ProtocolViolation as violation:
        return found, str(violation)
    return found, ""


def copied_in(client: ClientConnection, piece: bytes) -> None:
    client.receive_data(piece)


def read_into(client: ClientConnection, piece: bytes) -> int:
    """As a transport does it, which reads no more than there is room for; returns the number of
    reads."""
    reads = 0
    while piece:
        reads += 1
        room = client.get_buffer()
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        client.buffer_updated(count)
        piece = piece[count:]
    return reads


def came(
    client: ClientConnection,
    pieces: Sequence[bytes],
    give: Callable[[ClientConnection, bytes], object],
    *,
    at_end: bool,
) -> tuple[Came, str]:
    """All that comes of these pieces, looked at after all others have come, too."""
    answers, violation = [], ""
    for piece in pieces:
        give(client, piece)
        if not at_end:
            more, violation = taken(client)
            answers += more
    more, violation = taken(client)
    answers += more
    return [(one.call.correlation_id, bytes(one.body)) for one in answers], violation


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


STREAMS = st.lists(st.tuples(st.sampled_from(SERVED), SIZES), min_size=1, max_size=6)
ENDINGS = st.sampled_from(
    [
        b"",
        b"\x00\x00",
        struct.pack(">i", -1),
        struct.pack(">i", 2**30),
        framed(b"\x00"),
        framed(struct.pack(">i", 77)),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ]
)


@given(
    STREAMS,
    ENDINGS,
    st.lists(st.integers(0, 2**18), max_size=12),
    st.booleans(),
    st.sampled_from([copied_in, read_into]),
)
def test_bytes_cut_anywhere_give_the_same_answers(
    sent: list[tuple[tuple[Api, int], int]],
    ending: bytes,
    places: list[int],
    at_end: bool,
    give: Callable[[ClientConnection, bytes], object],
) -> None:
    calls = [call for call, _ in sent]
    bodies = [bytes([index % 251]) * size for index, (_, size) in enumerate(sent, 1)]
    stream = b"".join(
        answer_to(index, api, version, body)
        for index, ((api, version), body) in enumerate(zip(calls, bodies, strict=True), 1)
    )
    whole = came(asking(*calls, calls[0]), [stream + ending], copied_in, at_end=True)
    parts = came(asking(*calls, calls[0]), cut(stream + ending, places), give, at_end=at_end)
    assert parts == whole
    assert parts[0] == list(enumerate(bodies, 1))
    assert bool(parts[1]) is (len(ending) > 2)


@given(STREAMS, st.integers(1, 64))
def test_single_bytes_and_other_even_pieces(
    sent: list[tuple[tuple[Api, int], int]], size: int
) -> None:
    calls = [call for call, _ in sent]
    stream = b"".join(
        answer_to(index, *call, b"x" * (many % 700)) for index, (call, many) in enumerate(sent, 1)
    )
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    found, violation = came(asking(*calls), pieces, copied_in, at_end=False)
    assert found == [(index, b"x" * (many % 700)) for index, (_, many) in enumerate(sent, 1)]
    assert violation == ""


@pytest.mark.parametrize("client_id", ["tester", None])
@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_broker_understands_what_is_sent(api: Api, version: int, client_id: str | None) -> None:
    client = ClientConnection(client_id)
    pieces = client.send(api.key, version, [b"one", b"two"])
    frame = memoryview(b"".join(pieces))[4:]
    assert struct.unpack_from(">i", pieces[0]) == (len(frame),)
    parsed = parse_request(frame)
    assert isinstance(parsed, Request)
    assert parsed.header == (api, version, 1, client_id)
    assert bytes(parsed.body) == b"onetwo"


def test_correlation_ids_start_again_before_they_are_negative() -> None:
    client = ClientConnection(None)
    client._correlation_id = 2**31 - 2
    for expected in (2**31 - 1, 1, 2):
        header = client.send(ApiKey.METADATA, 1, [])[0]
        assert struct.unpack_from(">i", header, 8) == (expected,)


def test_requests_without_an_answer_are_counted() -> None:
    metadata = APIS[ApiKey.METADATA]
    client = asking((metadata, 1), (metadata, 1))
    assert client.in_flight == 2
    client.receive_data(answer_to(1, metadata, 1, b""))
    assert client.in_flight == 1
    assert client.next_answer() is not None
    assert client.next_answer() is None


def test_an_answer_that_nobody_requested() -> None:
    client = asking()
    client.receive_data(framed(struct.pack(">i", 1)))
    with pytest.raises(ProtocolViolation, match="without a request"):
        client.next_answer()


def test_after_a_violation_nothing_else_comes() -> None:
    metadata = APIS[ApiKey.METADATA]
    client = asking((metadata, 1), (metadata, 1))
    client.receive_data(answer_to(9, metadata, 1, b"") + answer_to(1, metadata, 1, b""))
    for _ in range(2):
        with pytest.raises(ProtocolViolation, match="another request"):
            client.next_answer()
    client.receive_data(answer_to(1, metadata, 1, b""))
    read_into(client, answer_to(1, metadata, 1, b""))
    with pytest.raises(ProtocolViolation, match="another request"):
        client.next_answer()


def test_answers_may_be_larger_once_the_broker_is_known() -> None:
    metadata = APIS[ApiKey.METADATA]
    client = asking((metadata, 1), limit_bytes=100)
    client.allow(200)
    client.receive_data(answer_to(1, metadata, 1, bytes(150)))
    answer = client.next_answer()
    assert answer is not None
    assert len(answer.body) == 150

    client = asking((metadata, 1), limit_bytes=100)
    client.receive_data(answer_to(1, metadata, 1, bytes(150)))
    with pytest.raises(ProtocolViolation, match="above 100"):
        client.next_answer()


def test_the_buffer_grows_at_once_once_the_broker_is_known() -> None:
    metadata = APIS[ApiKey.METADATA]
    answer = answer_to(1, metadata, 1, bytes(1_000_000))
    reads = []
    for is_known in (False, True):
        client = asking((metadata, 1))
        if is_known:
            client.allow(len(answer))
        reads.append(read_into(client, answer))
        found = client.next_answer()
        assert found is not None
        assert len(found.body) == 1_000_000
    assert reads[1] == 2 < reads[0]


def test_versions_are_those_that_both_speak() -> None:
    client = ClientConnection("tester")
    client.versions = {ApiKey.FETCH: (4, 99), ApiKey.METADATA: (0, 5), ApiKey.PRODUCE: (13, 13)}
    assert client.common_version(ApiKey.FETCH) == APIS[ApiKey.FETCH].max_version
    assert client.common_version(ApiKey.FETCH, (15, 16)) == 16
    assert client.common_version(ApiKey.METADATA) == 5
    for key, ours, spoken in (
        (ApiKey.PRODUCE, None, (13, 13)),
        (ApiKey.LIST_OFFSETS, None, None),
        (ApiKey.METADATA, (6, 12), (0, 5)),
    ):
        with pytest.raises(NoCommonVersion, match="no common version of") as none:
            client.common_version(key, ours)
        assert (none.value.key, none.value.spoken) == (key, spoken)


def test_messages_are_kios() -> None:
    client = ClientConnection("tester")
    request = schema.request_class(ApiKey.SASL_HANDSHAKE, 1)(mechanism="PLAIN")
    pieces = client.send(ApiKey.SASL_HANDSHAKE, 1, [encoded(request)])
    assert b"".join(pieces).endswith(b"\x00\x05PLAIN")
    answer = schema.response_class(ApiKey.SASL_HANDSHAKE, 1)(
        error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=("SCRAM-SHA-512",)
    )
    body = outgoing.encode_request(answer)
    client.receive_data(answer_to(1, APIS[ApiKey.SASL_HANDSHAKE], 1, body))
    found = client.next_answer()
    assert found is not None
    assert found.message() == answer


def test_an_answer_that_is_no_such_message() -> None:
    handshake = APIS[ApiKey.SASL_HANDSHAKE]
    client = asking((handshake, 1))
    client.receive_data(answer_to(1, handshake, 1, b"\x00"))
    found = client.next_answer()
    assert found is not None
    with pytest.raises(ProtocolViolation, match="malformed SaslHandshake"):
        found.message()
