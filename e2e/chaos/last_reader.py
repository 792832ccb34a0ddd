"""Reads all records of a topic at the end of a run, when no records are written any more."""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from e2e.chaos.ledger import Ledger, name_of
from e2e.chaos.readers import librdkafka_consumer
from e2e.clients.by_librdkafka import place
from e2e.sim.history import History
from e2e.transactions.client import Isolation

ASK_LIMIT_S = 10
TRY_FOR_S = 60
READ_LIMIT_S = 120
Records = dict[int, list[tuple[int, str]]]
"""Partition -> (offset, name) of its records."""


def read_everything(bootstrap: str, ledger: Ledger, history: History) -> None:
    """Read the topic, and fill in the history's `final` records, `starts` and `ends`.

    Partitions that cannot be read to their end in `READ_LIMIT_S` are left out of `final`. Records
    of aborted transactions are included.
    """
    found, bounds = all_records(bootstrap, ledger, Isolation.UNCOMMITTED)
    for number, (start, end) in bounds.items():
        label = ledger.labels[number]
        history.starts[label], history.ends[label] = start, end
    history.final |= {ledger.labels[number]: records for number, records in found.items()}


def all_records(
    bootstrap: str, ledger: Ledger, isolation: Isolation
) -> tuple[Records, dict[int, tuple[int, int]]]:
    """The records of the partitions that could be read to their end in `READ_LIMIT_S`; and, for
    every partition, its log start offset and where this isolation level ends."""
    consumer = librdkafka_consumer(bootstrap, isolation, reports_ends=True)
    try:
        bounds = {
            number: bounds_of(consumer, Position(ledger.topic, number))
            for number in range(ledger.partitions)
        }
        return read(consumer, ledger.topic, bounds), bounds
    finally:
        consumer.close()


def bounds_of(consumer: Consumer, where: Position) -> tuple[int, int]:
    """The log start offset of a partition, and where the consumer's isolation level ends: the high
    watermark or the last stable offset.

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


def read(consumer: Consumer, topic: str, bounds: dict[int, tuple[int, int]]) -> Records:
    """The records of the partitions that could be read to their end in `READ_LIMIT_S`.

    `bounds` are where the partitions begin and end. The last offsets may be those of markers, at
    which no record arrives, but the consumer's report of the end.
    """
    found: Records = {number: [] for number in bounds}
    unfinished = {number for number, (start, end) in bounds.items() if start < end}
    consumer.assign([Position(topic, number, bounds[number][0]) for number in sorted(unfinished)])
    until_s = time.monotonic() + READ_LIMIT_S
    while unfinished and time.monotonic() < until_s:
        for one in consumer.consume(1000, timeout=0.5):
            error = one.error()
            if error is None:
                number, offset = place(one)
                found[number].append((offset, name_of(one.value())))
                reached = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                number, reached = place(one)
            else:
                continue
            if reached >= bounds[number][1]:
                unfinished.discard(number)
    return {number: records for number, records in found.items() if number not in unfinished}
