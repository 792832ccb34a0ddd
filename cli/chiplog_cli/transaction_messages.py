"""The requests about transactions and their answers, as bytes (KIP-664).

librdkafka has none of them. Each function that reads an answer gets it without its length, and
raises `ValueError` if it is no such answer. Codes are Kafka's numbers of errors; 0 is none.
"""

import struct
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from chiplog_cli.facts import TopicPartition
from chiplog_cli.flexible import NO_TAGS, Reader, body_of, list_of, request, text
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Transaction,
    TransactionFilter,
    TransactionListing,
)

FIND_COORDINATOR, WRITE_TXN_MARKERS = 10, 27
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
OF_TRANSACTIONS = 1
"""The type of coordinator in FindCoordinator."""


class Coordinator(NamedTuple):
    """The answer to FindCoordinator."""

    code: int
    broker_id: int


class Listed(NamedTuple):
    """The answer to ListTransactions."""

    code: int
    unknown_states: tuple[str, ...]
    """The states of the filter that the broker does not know."""
    listings: tuple[TransactionListing, ...]


class Described(NamedTuple):
    """One transactional id in the answer to DescribeTransactions."""

    code: int
    transaction: Transaction


class ProducersOf(NamedTuple):
    """One partition in the answer to DescribeProducers."""

    code: int
    producers: tuple[ActiveProducer, ...]


def find_coordinator(client_id: str, transactional_id: str) -> bytes:
    """The request for the coordinator of a transactional id, version 3."""
    body = text(transactional_id) + bytes([OF_TRANSACTIONS]) + NO_TAGS
    return request(FIND_COORDINATOR, 3, client_id, body)


def coordinator_in(answer: bytes) -> Coordinator:
    reader = body_of(answer)
    reader.number(4)  # the throttle time
    code = reader.number(2)
    reader.text()  # the message
    return Coordinator(code, reader.number(4))


def list_transactions(client_id: str, wanted: TransactionFilter) -> bytes:
    """The request for the transactions of one coordinator, in the lowest version that has the
    filter."""
    body = list_of(map(text, wanted.states))
    body += list_of(struct.pack(">q", one) for one in wanted.producer_ids)
    version = 0
    if wanted.longer_than_ms is not None or wanted.id_pattern is not None:
        version, longer_than_ms = 1, wanted.longer_than_ms
        body += struct.pack(">q", -1 if longer_than_ms is None else longer_than_ms)
    if wanted.id_pattern is not None:
        version = 2
        body += text(wanted.id_pattern)
    return request(LIST_TRANSACTIONS, version, client_id, body + NO_TAGS)


def listed_in(answer: bytes, coordinator: int) -> Listed:
    """`coordinator` is the id of the broker that answered."""
    reader = body_of(answer)
    reader.number(4)  # the throttle time
    code = reader.number(2)
    unknown = reader.list_of(_name)

    def listing(reader: Reader) -> TransactionListing:
        transactional_id, producer_id, state = _name(reader), reader.number(8), _name(reader)
        reader.skip_tags()
        return TransactionListing(transactional_id, coordinator, producer_id, state)

    return Listed(code, tuple(unknown), tuple(reader.list_of(listing)))


def describe_transactions(client_id: str, transactional_ids: Iterable[str]) -> bytes:
    """The request for the states of transactional ids that one broker coordinates."""
    body = list_of(map(text, transactional_ids)) + NO_TAGS
    return request(DESCRIBE_TRANSACTIONS, 0, client_id, body)


def described_in(answer: bytes, coordinator: int) -> list[Described]:
    """`coordinator` is the id of the broker that answered."""
    reader = body_of(answer)
    reader.number(4)  # the throttle time

    def described(reader: Reader) -> Described:
        code, transactional_id, state = reader.number(2), _name(reader), _name(reader)
        timeout_ms, start_ms = reader.number(4), reader.number(8)
        producer_id, epoch = reader.number(8), reader.number(2)
        partitions = tuple(place for topic in reader.list_of(_topic) for place in topic)
        reader.skip_tags()
        transaction = Transaction(
            transactional_id=transactional_id,
            coordinator=coordinator,
            state=state,
            timeout_ms=timeout_ms,
            start_ms=start_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=partitions,
        )
        return Described(code, transaction)

    return reader.list_of(described)


def describe_producers(client_id: str, places: Iterable[TopicPartition]) -> bytes:
    """The request for the producers of partitions that one broker leads."""
    return request(DESCRIBE_PRODUCERS, 0, client_id, _topics(places) + NO_TAGS)


def producers_in(answer: bytes) -> Mapping[TopicPartition, ProducersOf]:
    reader = body_of(answer)
    reader.number(4)  # the throttle time

    def topic(reader: Reader) -> list[tuple[TopicPartition, ProducersOf]]:
        name, partitions = _name(reader), reader.list_of(partition)
        reader.skip_tags()
        return [(TopicPartition(name, number), found) for number, found in partitions]

    def partition(reader: Reader) -> tuple[int, ProducersOf]:
        number, code = reader.number(4), reader.number(2)
        reader.text()  # the message
        producers = reader.list_of(_producer)
        reader.skip_tags()
        return number, ProducersOf(code, tuple(producers))

    return {place: found for one in reader.list_of(topic) for place, found in one}


def write_abort_marker(client_id: str, place: TopicPartition, producer: ActiveProducer) -> bytes:
    """The request that ends the producer's open transaction in this partition by an abort marker.

    A producer without an earlier marker has the coordinator epoch -1; 0 is then below every real
    one, so that the marker of a coordinator that comes later is not refused.
    """
    marker = struct.pack(">qhb", producer.producer_id, producer.epoch, False)
    marker += _topics([place]) + struct.pack(">i", max(producer.coordinator_epoch, 0)) + NO_TAGS
    return request(WRITE_TXN_MARKERS, 1, client_id, list_of([marker]) + NO_TAGS)


def marker_code_in(answer: bytes) -> int:
    """The code for the only marker of the request."""

    def partition(reader: Reader) -> int:
        reader.number(4)  # its number
        code = reader.number(2)
        reader.skip_tags()
        return code

    def topic(reader: Reader) -> list[int]:
        reader.text()  # its name
        codes = reader.list_of(partition)
        reader.skip_tags()
        return codes

    def marker(reader: Reader) -> list[list[int]]:
        reader.number(8)  # the producer id
        topics = reader.list_of(topic)
        reader.skip_tags()
        return topics

    match body_of(answer).list_of(marker):
        case [[[code]]]:
            return code
    raise ValueError("the answer of the broker is not about one marker")


def _topics(places: Iterable[TopicPartition]) -> bytes:
    """A list of topics with the numbers of their partitions."""
    return list_of(
        text(topic) + list_of(struct.pack(">i", place.partition) for place in group) + NO_TAGS
        for topic, group in groupby(sorted(places), lambda place: place.topic)
    )


def _topic(reader: Reader) -> list[TopicPartition]:
    """The partitions of one topic."""
    name = _name(reader)
    numbers = reader.list_of(lambda reader: reader.number(4))
    reader.skip_tags()
    return [TopicPartition(name, number) for number in numbers]


def _producer(reader: Reader) -> ActiveProducer:
    producer_id, epoch, last_sequence = reader.number(8), reader.number(4), reader.number(4)
    last_timestamp_ms, coordinator_epoch = reader.number(8), reader.number(4)
    start_offset = reader.number(8)
    reader.skip_tags()
    return ActiveProducer(
        producer_id=producer_id,
        epoch=epoch,
        last_sequence=last_sequence,
        last_timestamp_ms=last_timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        start_offset=start_offset,
    )


def _name(reader: Reader) -> str:
    """Text that is not null."""
    found = reader.text()
    if found is None:
        raise ValueError("the answer of the broker lacks a name")
    return found
