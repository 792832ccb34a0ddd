"""The request for reassignments and its answer, beside kio's encoding."""

import io
import struct
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
)
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

from chiplog_cli.facts import TopicPartition
from chiplog_cli.reassignments import Reassignment, Refused, list_request, read_answer

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
FOUND = st.dictionaries(
    st.tuples(st.text("abc._-", min_size=1, max_size=200), st.integers(0, 10_000)).map(
        lambda one: TopicPartition(*one)
    ),
    st.tuples(IDS, IDS).map(lambda one: Reassignment(*one)),
    max_size=20,
)


def answer_of(
    found: Mapping[TopicPartition, Reassignment],
    code: ErrorCode = ErrorCode.none,
    message: str | None = None,
) -> bytes:
    """What a broker sends, without its length."""
    topics = sorted({place.topic for place in found})
    response = ListPartitionReassignmentsResponse(
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=7)),
        error_code=code,
        error_message=message,
        topics=tuple(
            OngoingTopicReassignment(
                name=TopicName(topic),
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=i32(place.partition),
                        replicas=tuple(BrokerId(i32(one)) for one in (*to.adding, 9)),
                        adding_replicas=tuple(BrokerId(i32(one)) for one in to.adding),
                        removing_replicas=tuple(BrokerId(i32(one)) for one in to.removing),
                    )
                    for place, to in found.items()
                    if place.topic == topic
                ),
            )
            for topic in topics
        ),
    )
    written = io.BytesIO()
    entity_writer(ResponseHeader)(written, ResponseHeader(correlation_id=i32(0)))
    entity_writer(ListPartitionReassignmentsResponse)(written, response)
    return written.getvalue()


@given(st.text("abc-", max_size=300), st.integers(0, 600))
def test_the_request_asks_for_all(client_id: str, timeout_s: int) -> None:
    request = list_request(client_id, timeout_s)

    assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
    header, size = entity_reader(RequestHeader)(request, 4)
    assert (header.request_api_key, header.request_api_version) == (i16(46), i16(0))
    assert header.client_id == client_id
    body, rest = entity_reader(ListPartitionReassignmentsRequest)(request, 4 + size)
    assert body.topics is None
    assert body.timeout == timedelta(seconds=timeout_s)
    assert 4 + size + rest == len(request)


@given(FOUND)
def test_an_answer(found: Mapping[TopicPartition, Reassignment]) -> None:
    assert read_answer(answer_of(found)) == found


@given(FOUND, st.data())
def test_an_answer_that_is_cut_is_none(
    found: Mapping[TopicPartition, Reassignment], data: st.DataObject
) -> None:
    whole = answer_of(found)
    # The last byte is the count of tagged fields, which nobody needs.
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(ValueError, match="answer of the broker"):
        read_answer(cut)


@given(st.binary(max_size=100))
def test_other_bytes_are_no_answer(other: bytes) -> None:
    with suppress(ValueError, Refused):
        read_answer(other)


def test_tagged_fields_of_a_newer_broker_are_passed_over() -> None:
    plain = answer_of({})
    assert plain[4] == 0
    assert read_answer(plain[:4] + b"\x01\x05\x02xy" + plain[5:]) == {}


@pytest.mark.parametrize(
    "code", [ErrorCode.cluster_authorization_failed, ErrorCode.unsupported_version]
)
def test_who_may_not_ask_sees_none(code: ErrorCode) -> None:
    assert read_answer(answer_of({}, code)) == {}


def test_an_error_is_told() -> None:
    with pytest.raises(Refused) as refused:
        read_answer(answer_of({}, ErrorCode.not_controller, "ask another"))
    assert (refused.value.code, refused.value.message) == (41, "ask another")
