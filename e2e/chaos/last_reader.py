"""Reads all records of a topic at the end of a run, when no records are written any more."""

import time

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from e2e.chaos.ledger import Ledger, name_of
from e2e.chaos.readers import librdkafka_consumer
from e2e.clients.by_librdkafka import place
from e2e.sim.history import History

ASK_LIMIT_S = 10
TRY_FOR_S = 60
READ_LIMIT_S = 120


def read_everything(bootstrap: str, ledger: Ledger, history: History) -> None:
    """Read the topic, and fill in the history's `final` records, `starts` and `ends`.

    Partitions that cannot be read to their end in `READ_LIMIT_S` are left out of `final`.
    """
    consumer = librdkafka_consumer(bootstrap)
    try:
        bounds = {
            number: bounds_of(consumer, Position(ledger.topic, number))
            for number in range(ledger.partitions)
        }
        found = read(consumer, ledger.topic, bounds)
    finally:
        consumer.close()
    for number, label in enumerate(ledger.labels):
        start, end = bounds[number]
        history.starts[label], history.ends[label] = start, end
        if is_whole(found[number], start, end):
            history.final[label] = found[number]


def bounds_of(consumer: Consumer, where: Position) -> tuple[int, int]:
    """The log start and log end offset of a partition.

    Errors are retried for `TRY_FOR_S`, then raised.
    """
    until_s = time.monotonic() + TRY_FOR_S
    while True:
        try:
            found = consumer.get_watermark_offsets(where, timeout=ASK_LIMIT_S)
            if found is not None:
                return found
        except KafkaException:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.5)


def read(
    consumer: Consumer, topic: str, bounds: dict[int, tuple[int, int]]
) -> dict[int, list[tuple[int, str]]]:
    """Partition -> (offset, name) of the records that could be read in `READ_LIMIT_S`.

    `bounds` are the partitions' log start and log end offsets.
    """
    found: dict[int, list[tuple[int, str]]] = {number: [] for number in bounds}
    unfinished = {number for number, (start, end) in bounds.items() if start < end}
    consumer.assign([Position(topic, number, bounds[number][0]) for number in sorted(unfinished)])
    until_s = time.monotonic() + READ_LIMIT_S
    while unfinished and time.monotonic() < until_s:
        for one in consumer.consume(1000, timeout=0.5):
            if one.error() is None:
                number, offset = place(one)
                found[number].append((offset, name_of(one.value())))
                if offset + 1 >= bounds[number][1]:
                    unfinished.discard(number)
    return found


def is_whole(found: list[tuple[int, str]], start: int, end: int) -> bool:
    """Whether these records of a partition reach its log end offset."""
    return start == end or (bool(found) and found[-1][0] + 1 >= end)
