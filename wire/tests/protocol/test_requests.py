"""From frames to requests, and what a frame may not contain."""

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol import messages as m
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec.api_versions import encode_unsupported_version
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.reader import MAX_ELEMENTS, Reader
from chiplog_wire.protocol.requests import (
    Request,
    RequestHeader,
    UnsupportedApiVersions,
    parse_request,
)

INT_MAX = (2**31 - 1).to_bytes(4)
VARINT_MAX = b"\xff\xff\xff\xff\x0f"


def header(key: int, version: int, client: bytes | None = b"me", tags: bytes = b"") -> bytes:
    client_bytes = -1 if client is None else len(client)
    return struct.pack(">hhih", key, version, 7, client_bytes) + (client or b"") + tags


def decode(frame: bytes) -> object:
    request = parse_request(memoryview(frame))
    assert isinstance(request, Request)
    return codec.decode_request(request)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# Headers


@pytest.mark.parametrize(("client", "name"), [(b"me", "me"), (b"", ""), (None, None)])
def test_a_plain_header(client: bytes | None, name: str | None) -> None:
    request = parse_request(memoryview(header(ApiKey.METADATA, 1, client) + b"body"))
    assert isinstance(request, Request)
    assert request.header == RequestHeader(APIS[ApiKey.METADATA], 1, 7, name)
    assert request.header.api_key is ApiKey.METADATA
    assert bytes(request.body) == b"body"


def test_a_flexible_header_skips_its_tagged_fields() -> None:
    tags = b"\x02" + b"\x00\x01x" + b"\x07\x02yz"
    request = parse_request(memoryview(header(ApiKey.METADATA, 12, b"me", tags) + b"body"))
    assert isinstance(request, Request)
    assert bytes(request.body) == b"body"


def test_a_client_id_may_be_long() -> None:
    request = parse_request(memoryview(header(ApiKey.METADATA, 1, b"x" * 32_767)))
    assert isinstance(request, Request)
    assert request.header.client_id == "x" * 32_767


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x00\x03\x00\x01\x00\x00\x00",
        header(-1, 0),
        header(4, 0),  # LeaderAndIsr
        header(32_767, 0),
        header(ApiKey.METADATA, -1),
        header(ApiKey.METADATA, 14),
        header(ApiKey.PRODUCE, 2),
        header(ApiKey.FETCH, 3),
        struct.pack(">hhih", ApiKey.METADATA, 1, 7, 100) + b"short",
        struct.pack(">hhih", ApiKey.METADATA, 1, 7, -2) + b"me",
        header(ApiKey.METADATA, 1, b"\xff\xfe"),
        header(ApiKey.METADATA, 12),  # header 1 where header 2 belongs
        header(ApiKey.METADATA, 12, b"me", VARINT_MAX),
        header(ApiKey.METADATA, 12, b"me", b"\x01\x00" + VARINT_MAX),
    ],
)
def test_bad_headers_are_violations(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        parse_request(memoryview(frame))


@pytest.mark.parametrize("version", [5, 99, 32_767, -1])
def test_api_versions_of_the_future_is_answered_in_version_0(version: int) -> None:
    frame = header(ApiKey.API_VERSIONS, version, b"franz-go", b"\x00what ever follows")
    request = parse_request(memoryview(frame))
    assert request == UnsupportedApiVersions(7)
    answer = encode_unsupported_version(7)
    size, correlation_id, error, count, *entry = struct.unpack(">iihihhh", answer)
    assert (size, correlation_id, count) == (len(answer) - 4, 7, 1)
    assert error == ErrorCode.unsupported_version
    assert entry == [ApiKey.API_VERSIONS, 0, 4]


# Bodies


def topics(count: bytes, rest: bytes = b"") -> bytes:
    """Metadata 1 with whatever count of topics is claimed."""
    return header(ApiKey.METADATA, 1) + count + rest


def compact_topics(count: bytes, rest: bytes = b"") -> bytes:
    """The same in Metadata 9."""
    return header(ApiKey.METADATA, 9, b"me", b"\x00") + count + rest


# ListOffsets 1 and 6: replica id, then topics of partitions; not a hot message.
PLAIN = header(ApiKey.LIST_OFFSETS, 1) + struct.pack(">i", -1)
COMPACT = header(ApiKey.LIST_OFFSETS, 6, b"me", b"\x00") + struct.pack(">ib", -1, 0)


@pytest.mark.parametrize(
    "frame",
    [
        topics(INT_MAX),
        topics(INT_MAX, b"\x00" * 10),
        topics((-2).to_bytes(4, signed=True)),
        topics((1).to_bytes(4), struct.pack(">h", -1)),
        topics((1).to_bytes(4), struct.pack(">h", -2)),
        topics((1).to_bytes(4), struct.pack(">h", 9) + b"short"),
        topics((1).to_bytes(4), struct.pack(">h", 2) + b"\xc3\x28"),
        compact_topics(VARINT_MAX),
        compact_topics(b"\xff\xff\xff\xff\x1f", b"\x00" * 100),  # 33 bits
        compact_topics(b"\xff\xff\xff\xff\xff\x01", b"\x00" * 100),  # six bytes
        compact_topics(b"\x80" * 40),
        compact_topics(b"\x80"),
        compact_topics(b"\x02\x00"),  # null where a name is needed
        compact_topics(b"\x01\x01\x01\x01\x02\x05\x00\x05\x00"),  # a tag twice
        PLAIN + INT_MAX + INT_MAX,
        PLAIN + INT_MAX + b"\x00\x00" + INT_MAX,
        PLAIN + (2).to_bytes(4) + (b"\x00\x00" + INT_MAX) * 2,
        PLAIN + (-1).to_bytes(4, signed=True),
        COMPACT + VARINT_MAX + b"\x01" + VARINT_MAX,
        COMPACT + b"\x00",
        header(ApiKey.PRODUCE, 3) + struct.pack(">hhi", -1, 1, 0) + INT_MAX + b"\x00\x00" + INT_MAX,
        header(ApiKey.PRODUCE, 3)
        + struct.pack(">hhiihiii", -1, 1, 0, 1, 0, 1, 0, 2**31 - 1)
        + b"records",
        header(ApiKey.FETCH, 4) + struct.pack(">iiiibihi", -1, 0, 0, 0, 0, 1, 0, 2**31 - 1),
        header(ApiKey.FETCH, 4) + struct.pack(">iiiibihi", -1, 0, 0, 0, 0, 1, 0, 2) + bytes(20),
    ],
)
def test_bad_bodies_are_violations(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode(frame)


def tagged(count: int, tags: bytes) -> bytes:
    """ApiVersions 3 with tagged fields at its end."""
    return header(ApiKey.API_VERSIONS, 3, b"me", b"\x00") + b"\x02a\x02b" + uvarint(count) + tags


def test_unknown_tagged_fields_are_skipped() -> None:
    frame = tagged(3, b"\x00\x00" + b"\x05\x01x" + uvarint(4_000_000_000) + b"\x00")
    assert decode(frame) == m.ApiVersionsRequest("a", "b")


def test_a_million_tagged_fields_are_a_violation_at_once() -> None:
    million = b"".join(uvarint(tag) + b"\x00" for tag in range(10**6))
    frame = tagged(10**6, million)
    started = time.perf_counter()
    with pytest.raises(ProtocolViolation):
        decode(frame)
    assert time.perf_counter() - started < 0.1


def peak_bytes_of(frame: bytes) -> int:
    tracemalloc.start()
    try:
        decode(frame)
    except ProtocolViolation:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak_bytes


def test_counts_that_fit_do_not_multiply_memory() -> None:
    """Millions of one-byte elements would take a hundred bytes each."""
    size = 2_000_000
    empty_topics = header(ApiKey.PRODUCE, 9, b"me", b"\x00") + b"\x00" + struct.pack(">hi", 1, 0)
    for frame in (
        topics(size.to_bytes(4), bytes(2 * size)),
        compact_topics(uvarint(size + 1), b"\x01\x00" * size),
        empty_topics + uvarint(size + 1) + b"\x01\x01\x00" * size,
        PLAIN + size.to_bytes(4) + (b"\x00\x00" + bytes(4)) * size,
    ):
        assert peak_bytes_of(frame) < 16 * 1024 * 1024


def test_nested_counts_share_one_allowance() -> None:
    """A thousand topics of a thousand partitions each is a million elements."""
    topic = b"\x00\x01t" + (1000).to_bytes(4) + bytes(16 * 1000)
    limits = struct.pack(">iiiib", -1, 0, 0, 0, 0)
    frame = header(ApiKey.FETCH, 4) + limits + (1000).to_bytes(4) + topic * 1000
    with pytest.raises(ProtocolViolation, match="elements"):
        decode(frame)


def test_tagged_fields_count_as_elements() -> None:
    """Each structure may have 256; thousands of structures have no more in all than a message."""
    fields = uvarint(256) + b"".join(uvarint(tag) + b"\x00" for tag in range(256))
    topic = bytes(16) + b"\x00" + fields
    frame = header(ApiKey.METADATA, 12, b"me", b"\x00") + uvarint(1001) + topic * 1000
    with pytest.raises(ProtocolViolation, match="tagged fields"):
        decode(frame + b"\x00\x00\x00")


@pytest.mark.parametrize("size", [2, 2**32 - 1])
def test_a_tagged_field_beyond_the_end_is_a_violation(size: int) -> None:
    with pytest.raises(ProtocolViolation, match="beyond the end"):
        decode(tagged(1, b"\x00" + uvarint(size) + b"x"))


def test_nested_tagged_fields_share_the_allowance() -> None:
    array = uvarint(20_002) + bytes(20_001)
    field = uvarint(len(array)) + array
    reader = Reader(memoryview(b"\x02\x00" + field + b"\x01" + field), compact=True)
    first, second = reader.tagged_fields().values()
    assert first.count() == 20_001
    with pytest.raises(ProtocolViolation, match="elements"):
        second.count()


def test_as_many_partitions_as_a_message_may_name_are_served() -> None:
    count = MAX_ELEMENTS - 1
    limits = struct.pack(">iiiib", -1, 0, 0, 0, 0)
    frame = header(ApiKey.FETCH, 4) + limits + struct.pack(">ihi", 1, 0, count) + bytes(16 * count)
    request = decode(frame)
    assert isinstance(request, m.FetchRequest)
    assert len(request.topics[0].partitions) == count


# What the hot path relies on


def test_produce_hands_out_views_into_the_frame() -> None:
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + b"\x00\x01t" + struct.pack(">iii", 1, 5, 4)
    frame = bytearray(header(ApiKey.PRODUCE, 3) + body + b"data")
    request = parse_request(memoryview(frame))
    assert isinstance(request, Request)
    produce = codec.decode_request(request)
    assert isinstance(produce, m.ProduceRequest)
    assert (produce.acks, produce.timeout_ms) == (-1, 30_000)
    ((name, ((partition, records),)),) = produce.topics
    assert (name, partition) == ("t", 5)
    assert records is not None
    records[0:1] = b"X"
    assert frame.endswith(b"Xata")


def test_tagged_fields_on_fetch_partitions_are_skipped() -> None:
    """No version of ours has any, but a client of the future may send them."""
    limits = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)
    first = struct.pack(">iiqiqi", 1, 2, 3, 4, 5, 6) + b"\x01\x09\x02xy"
    second = struct.pack(">iiqiqi", 7, 8, 9, 10, 11, 12) + b"\x00"
    topic = b"\x02t" + b"\x03" + first + second + b"\x00"
    frame = header(ApiKey.FETCH, 12, b"me", b"\x00") + limits + b"\x02" + topic + b"\x01\x01\x00"
    request = decode(frame)
    assert isinstance(request, m.FetchRequest)
    assert request.topics[0].partitions == [
        m.FetchPartition(1, 2, 3, 4, 5, 6),
        m.FetchPartition(7, 8, 9, 10, 11, 12),
    ]


def test_a_violation_does_not_repeat_what_the_peer_sent(
    header: Callable[[Api, int], RequestHeader],
) -> None:
    secret = b"s3cret\xff"
    request = Request(
        header(APIS[ApiKey.METADATA], 1),
        memoryview(struct.pack(">ih", 1, len(secret)) + secret),
    )
    with pytest.raises(ProtocolViolation) as violation:
        codec.decode_request(request)
    assert "s3cret" not in str(violation.value)


def test_bytes_after_a_message_are_ignored() -> None:
    """librdkafka's Metadata request for all topics, as captured: Kafka ignores its last bytes."""
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    request = parse_request(memoryview(frame))
    assert isinstance(request, Request)
    message = codec.decode_request(request)
    assert isinstance(message, m.MetadataRequest)
    assert message.topics is None
