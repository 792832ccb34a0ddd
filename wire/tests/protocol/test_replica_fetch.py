"""Fetch as followers speak it, against kio: the same bytes out, the same values in."""

import os
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol import messages as m
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import replica_fetch, schema
from chiplog_wire.protocol.codec.fetch_response import encode_response
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.requests import Request, RequestHeader

Messages = Callable[[type[Any]], Iterator[Any]]
KioBytes = Callable[[Any], bytes]

FUZZED = int(os.environ.get("CHIPLOG_FUZZ_FRAMES", "20000")) // 10

wires = pytest.mark.parametrize(
    "wire", range(replica_fetch.LOWEST_VERSION, replica_fetch.HIGHEST_VERSION + 1)
)


def milliseconds(delta: timedelta) -> int:
    return delta // timedelta(milliseconds=1)


def unless_default(value: Any, make: Callable[..., Any]) -> Any:
    """kio does not write a tagged structure that equals its default."""
    if value == type(value)():
        return None
    return make(*(getattr(value, name) for name in schema.shapes(type(value))))


def request_of(theirs: Any) -> m.FetchRequest:
    state = theirs.replica_state
    return m.FetchRequest(
        state.replica_id,
        state.replica_epoch,
        milliseconds(theirs.max_wait),
        theirs.min_bytes,
        theirs.max_bytes,
        theirs.isolation_level,
        theirs.session_id,
        theirs.session_epoch,
        [
            m.FetchTopic(
                None,
                topic.topic_id,
                [
                    m.FetchPartition(
                        one.partition,
                        one.current_leader_epoch,
                        one.fetch_offset,
                        one.last_fetched_epoch,
                        one.log_start_offset,
                        one.partition_max_bytes,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in theirs.topics
        ],
        [
            m.ForgottenTopic(None, topic.topic_id, list(topic.partitions))
            for topic in theirs.forgotten_topics_data
        ],
        theirs.rack_id,
        theirs.cluster_id,
    )


def without_directories(theirs: Any) -> Any:
    """What 17 (KIP-853) and 18 (KIP-1166) add is for KRaft; like Kafka's followers we do not say
    it."""
    for topic in theirs.topics:
        for one in topic.partitions:
            if hasattr(one, "replica_directory_id"):
                object.__setattr__(one, "replica_directory_id", None)
            if hasattr(one, "high_watermark"):
                object.__setattr__(one, "high_watermark", 2**63 - 1)
    return theirs


@wires
def test_requests_are_what_kio_writes(wire: int, messages: Messages, kio_bytes: KioBytes) -> None:
    for theirs in map(without_directories, messages(schema.request_class(ApiKey.FETCH, wire))):
        assert replica_fetch.encode_request(wire, request_of(theirs)) == kio_bytes(theirs)


@pytest.mark.parametrize("wire", [15, 16])
def test_our_own_leader_reads_our_requests(
    wire: int, messages: Messages, header: Callable[[Api, int], RequestHeader]
) -> None:
    for theirs in messages(schema.request_class(ApiKey.FETCH, wire)):
        ours = request_of(theirs)
        body = memoryview(replica_fetch.encode_request(wire, ours))
        assert codec.decode_request(Request(header(APIS[ApiKey.FETCH], wire), body)) == ours


@wires
def test_answers_are_read_as_kio_wrote_them(
    wire: int, messages: Messages, kio_bytes: KioBytes
) -> None:
    for theirs in messages(schema.response_class(ApiKey.FETCH, wire)):
        body = memoryview(kio_bytes(theirs))
        ours = replica_fetch.decode_response(wire, body)
        assert ours == m.FetchResponse(
            [
                m.FetchTopicResponse(None, topic.topic_id, [fetched(p) for p in topic.partitions])
                for topic in theirs.responses
            ],
            milliseconds(theirs.throttle_time),
            theirs.error_code,
            theirs.session_id,
            [
                m.NodeEndpoint(e.node_id, e.host, e.port, e.rack)
                for e in getattr(theirs, "node_endpoints", ())
            ],
        )
        for topic in ours.topics:
            for one in topic.partitions:
                if len(one.records):  # type: ignore[arg-type]
                    assert isinstance(one.records, memoryview)
                    assert one.records.obj is body.obj, "records are copied"


def fetched(theirs: Any) -> m.FetchPartitionResponse:
    aborted = theirs.aborted_transactions
    return m.FetchPartitionResponse(
        theirs.partition_index,
        theirs.error_code,
        theirs.high_watermark,
        theirs.last_stable_offset,
        theirs.log_start_offset,
        None
        if aborted is None
        else [m.AbortedTransaction(a.producer_id, a.first_offset) for a in aborted],
        theirs.preferred_read_replica,
        b"" if theirs.records is None else theirs.records,
        unless_default(theirs.diverging_epoch, m.EpochEndOffset),
        unless_default(theirs.current_leader, m.LeaderIdAndEpoch),
    )


@wires
def test_damaged_answers_are_violations_or_nothing(
    wire: int, messages: Messages, kio_bytes: KioBytes
) -> None:
    chance = random.Random(wire)  # noqa: S311 - reproducible, not secret
    bodies = [kio_bytes(one) for one in messages(schema.response_class(ApiKey.FETCH, wire))]
    refused = 0
    for _ in range(FUZZED):
        data = bytearray(chance.choice(bodies))
        for _ in range(chance.choice([1, 2, 8])):
            position = chance.randrange(len(data) + 1)
            if chance.random() < 0.5:
                data[position : position + 4] = chance.choice(
                    [b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x00", chance.randbytes(4)]
                )
            else:
                del data[position:]
        try:
            replica_fetch.decode_response(wire, memoryview(bytes(data)))
        except ProtocolViolation:
            refused += 1
    assert refused > FUZZED // 4


def test_a_count_beyond_the_answer_makes_nothing() -> None:
    body = bytes(10) + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(ProtocolViolation, match="count"):
        replica_fetch.decode_response(16, memoryview(body))


@wires
@pytest.mark.parametrize("may_have_gaps", [False, True])
def test_a_leader_says_that_its_log_was_compacted(
    wire: int, may_have_gaps: bool, header: Callable[[Api, int], RequestHeader]
) -> None:
    one = m.FetchPartitionResponse(3, 0, 9, 9, 0, [], may_have_gaps=may_have_gaps)
    topic = m.FetchTopicResponse(None, UUID(int=7), [one])
    sent = encode_response(header(APIS[ApiKey.FETCH], wire), m.FetchResponse([topic]))
    frame = b"".join(bytes(piece) for piece in sent if isinstance(piece, bytes | bytearray))
    # Length, correlation id and the header's empty tags come first.
    answer = replica_fetch.decode_response(wire, memoryview(frame)[9:])
    assert answer.topics[0].partitions[0].may_have_gaps is may_have_gaps
