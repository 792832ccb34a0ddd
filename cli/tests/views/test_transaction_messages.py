"""The requests about transactions and their answers, beside kio's encoding."""

import io
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from chiplog_cli import transaction_messages as messages
from chiplog_cli.facts import TopicPartition
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Transaction,
    TransactionFilter,
    TransactionListing,
)

FEW = settings(max_examples=20)
NAMES = st.text(min_size=1, max_size=200)
INT16, INT32, INT64 = (st.integers(-1, 2**bits - 1) for bits in (15, 31, 63))
PLACES = st.builds(TopicPartition, NAMES, st.integers(0, 10_000))
PRODUCERS = st.builds(
    ActiveProducer,
    producer_id=INT64,
    epoch=INT16,
    last_sequence=INT32,
    last_timestamp_ms=INT64,
    coordinator_epoch=INT32,
    start_offset=INT64,
)


def schema(api: str, version: int, kind: str) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.{kind}")


def request_in(request: bytes, api: str, version: int, name: str) -> Any:
    """The request as kio reads it, with nothing left over."""
    assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
    header, size = entity_reader(RequestHeader)(request, 4)
    message = getattr(schema(api, version, "request"), f"{name}Request")
    assert header.client_id == "me"
    assert (header.request_api_key, header.request_api_version) == (message.__api_key__, version)
    body, rest = entity_reader(message)(request, 4 + size)
    assert 4 + size + rest == len(request)
    return body


def answer_of(response: Any) -> bytes:
    """What a broker sends, without its length."""
    written = io.BytesIO()
    entity_writer(ResponseHeader)(written, ResponseHeader(correlation_id=i32(0)))
    entity_writer(type(response))(written, response)
    return written.getvalue()


def by_topic(places: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


LISTED = schema("list_transactions", 0, "response")
DESCRIBED = schema("describe_transactions", 0, "response")
PRODUCING = schema("describe_producers", 0, "response")
MARKED = schema("write_txn_markers", 1, "response")
FOUND = schema("find_coordinator", 3, "response")
NO_WAIT = timedelta(0)


@FEW
@given(NAMES)
def test_find_coordinator(transactional_id: str) -> None:
    request = messages.find_coordinator("me", transactional_id)
    body = request_in(request, "find_coordinator", 3, "FindCoordinator")
    assert (body.key, body.key_type) == (transactional_id, 1)
    response = FOUND.FindCoordinatorResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.not_coordinator,
        error_message="no",
        node_id=7,
        host="h",
        port=9092,
    )
    assert messages.coordinator_in(answer_of(response)) == (16, 7)


@pytest.mark.parametrize(
    ("wanted", "version", "longer_than_ms", "pattern"),
    [
        (TransactionFilter(("Ongoing", "Dead"), (1, 2**62)), 0, None, None),
        (TransactionFilter(longer_than_ms=5), 1, 5, None),
        (TransactionFilter(("Empty",), id_pattern="a.*"), 2, -1, "a.*"),
    ],
)
def test_a_list_is_requested_in_the_lowest_version_that_does(
    wanted: TransactionFilter, version: int, longer_than_ms: int | None, pattern: str | None
) -> None:
    request = messages.list_transactions("me", wanted)
    body = request_in(request, "list_transactions", version, "ListTransactions")
    assert (body.state_filters, body.producer_id_filters) == (wanted.states, wanted.producer_ids)
    assert getattr(body, "duration_filter", None) == longer_than_ms
    assert getattr(body, "transactional_id_pattern", None) == pattern


@FEW
@given(st.lists(st.tuples(NAMES, INT64, NAMES), max_size=5))
def test_a_list(found: list[tuple[str, int, str]]) -> None:
    response = LISTED.ListTransactionsResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        unknown_state_filters=("Odd",),
        transaction_states=tuple(
            LISTED.TransactionState(transactional_id=name, producer_id=one, transaction_state=state)
            for name, one, state in found
        ),
    )
    listings = tuple(TransactionListing(name, 3, one, state) for name, one, state in found)
    assert messages.listed_in(answer_of(response), 3) == (0, ("Odd",), listings)


@FEW
@given(NAMES, st.integers(0, 2**31 - 1), st.integers(-1, 2**40), INT64, INT16, st.lists(PLACES))
def test_a_description(
    name: str,
    timeout_ms: int,
    start_ms: int,
    producer_id: int,
    epoch: int,
    places: list[TopicPartition],
) -> None:
    request = messages.describe_transactions("me", [name, "b"])
    body = request_in(request, "describe_transactions", 0, "DescribeTransactions")
    assert body.transactional_ids == (name, "b")
    response = DESCRIBED.DescribeTransactionsResponse(
        throttle_time=NO_WAIT,
        transaction_states=(
            DESCRIBED.TransactionState(
                error_code=ErrorCode.none,
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout=timedelta(milliseconds=timeout_ms),
                transaction_start_time=datetime.fromtimestamp(0, UTC)
                + timedelta(milliseconds=start_ms),
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=tuple(
                    DESCRIBED.TopicData(topic=topic, partitions=tuple(numbers))
                    for topic, numbers in by_topic(places).items()
                ),
            ),
        ),
    )
    ((code, found),) = messages.described_in(answer_of(response), 3)
    assert code == 0
    assert found == Transaction(
        transactional_id=name,
        coordinator=3,
        state="Ongoing",
        timeout_ms=timeout_ms,
        start_ms=start_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        partitions=tuple(
            TopicPartition(topic, number)
            for topic, numbers in by_topic(places).items()
            for number in numbers
        ),
    )


@FEW
@given(st.dictionaries(PLACES, st.lists(PRODUCERS, max_size=3), max_size=5))
def test_producers(found: dict[TopicPartition, list[ActiveProducer]]) -> None:
    request = messages.describe_producers("me", found)
    body = request_in(request, "describe_producers", 0, "DescribeProducers")
    requested = {(topic.name, one) for topic in body.topics for one in topic.partition_indexes}
    assert requested == set(found)
    response = PRODUCING.DescribeProducersResponse(
        throttle_time=NO_WAIT,
        topics=tuple(
            PRODUCING.TopicResponse(
                name=topic,
                partitions=tuple(
                    PRODUCING.PartitionResponse(
                        partition_index=number,
                        error_code=ErrorCode.none,
                        active_producers=tuple(
                            PRODUCING.ProducerState(
                                producer_id=one.producer_id,
                                producer_epoch=one.epoch,
                                last_sequence=one.last_sequence,
                                last_timestamp=one.last_timestamp_ms,
                                coordinator_epoch=one.coordinator_epoch,
                                current_txn_start_offset=one.start_offset,
                            )
                            for one in found[TopicPartition(topic, number)]
                        ),
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(list(found)).items()
        ),
    )
    answer = messages.producers_in(answer_of(response))
    assert answer == {at: (0, tuple(producers)) for at, producers in found.items()}


@FEW
@given(PLACES, PRODUCERS)
def test_an_abort_marker(at: TopicPartition, producer: ActiveProducer) -> None:
    request = messages.write_abort_marker("me", at, producer)
    body = request_in(request, "write_txn_markers", 1, "WriteTxnMarkers")
    (marker,) = body.markers
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, producer.epoch)
    assert not marker.transaction_result
    assert marker.coordinator_epoch == max(producer.coordinator_epoch, 0)
    (topic,) = marker.topics
    assert (topic.name, topic.partition_indexes) == (at.topic, (at.partition,))


def test_the_answer_to_a_marker() -> None:
    partition = MARKED.WritableTxnMarkerPartitionResult(
        partition_index=0, error_code=ErrorCode.invalid_producer_epoch
    )
    topic = MARKED.WritableTxnMarkerTopicResult(name="a", partitions=(partition,))
    marker = MARKED.WritableTxnMarkerResult(producer_id=1, topics=(topic,))
    answer = answer_of(MARKED.WriteTxnMarkersResponse(markers=(marker,)))
    assert messages.marker_code_in(answer) == 47
    with pytest.raises(ValueError, match="one marker"):
        messages.marker_code_in(answer_of(MARKED.WriteTxnMarkersResponse(markers=())))


@pytest.mark.parametrize(
    "read",
    [
        messages.coordinator_in,
        lambda answer: messages.listed_in(answer, 1),
        lambda answer: messages.described_in(answer, 1),
        messages.producers_in,
        messages.marker_code_in,
    ],
)
@settings(max_examples=30)
@given(st.binary(max_size=60))
def test_other_bytes_are_no_answer(read: Callable[[bytes], object], other: bytes) -> None:
    with suppress(ValueError):
        read(other)
