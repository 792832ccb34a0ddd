"""Transactions and producers, as `kafka-transactions.sh` shows them."""

from collections.abc import Iterable
from typing import Any

from chiplog_cli.hanging import OpenTransaction
from chiplog_cli.tables import table
from chiplog_cli.transaction_facts import NONE, ActiveProducer, Transaction, TransactionListing

NO_VALUE = "None"
"""What Kafka's tool prints where there is no value."""
MINUTE_MS = 60_000


def list_text(listings: Iterable[TransactionListing]) -> str:
    return table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), listings)


def list_documents(listings: Iterable[TransactionListing]) -> list[dict[str, Any]]:
    """The transactions for JSON and YAML."""
    return [
        {
            "transactionalId": one.transactional_id,
            "coordinator": one.coordinator,
            "producerId": one.producer_id,
            "state": one.state,
        }
        for one in listings
    ]


def describe_text(transactions: Iterable[Transaction], now_ms: int) -> str:
    """A row for each transactional id. Times are in milliseconds, as in Kafka's tool."""
    header = (
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
        "TopicPartitions",
    )
    return table(
        header,
        (
            (
                *(one.coordinator, one.transactional_id, one.producer_id, one.producer_epoch),
                *(one.state, one.timeout_ms, _or_none(_start_ms(one))),
                *(_or_none(_duration_ms(one, now_ms)), ",".join(map(str, one.partitions))),
            )
            for one in transactions
        ),
    )


def describe_documents(transactions: Iterable[Transaction], now_ms: int) -> list[dict[str, Any]]:
    """The transactions for JSON and YAML. Without a transaction the times are null."""
    return [
        {
            "transactionalId": one.transactional_id,
            "coordinator": one.coordinator,
            "producerId": one.producer_id,
            "producerEpoch": one.producer_epoch,
            "state": one.state,
            "timeoutMs": one.timeout_ms,
            "startTimeMs": _start_ms(one),
            "durationMs": _duration_ms(one, now_ms),
            "partitions": [{"topic": at.topic, "partition": at.partition} for at in one.partitions],
        }
        for one in transactions
    ]


def producers_text(producers: Iterable[ActiveProducer]) -> str:
    """A row for each producer of a partition."""
    header = (
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"),
        *("LastTimestamp", "CurrentTransactionStartOffset"),
    )
    return table(
        header,
        (
            (
                *(one.producer_id, one.epoch, one.coordinator_epoch, one.last_sequence),
                *(one.last_timestamp_ms, _or_none(_known(one.start_offset))),
            )
            for one in producers
        ),
    )


def producer_documents(producers: Iterable[ActiveProducer]) -> list[dict[str, Any]]:
    """The producers of a partition for JSON and YAML. What does not exist is null."""
    return [_producer(one) for one in producers]


def hanging_text(found: Iterable[OpenTransaction], now_ms: int) -> str:
    """A row for each hanging transaction, with the minutes since its producer wrote last."""
    header = (
        *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"),
        *("StartOffset", "LastTimestamp", "Duration(min)"),
    )
    return table(
        header,
        (
            (
                *(at.topic, at.partition, one.producer_id, one.epoch, one.coordinator_epoch),
                *(one.start_offset, one.last_timestamp_ms),
                (now_ms - one.last_timestamp_ms) // MINUTE_MS,
            )
            for at, one in found
        ),
    )


def hanging_documents(found: Iterable[OpenTransaction]) -> list[dict[str, Any]]:
    """The hanging transactions for JSON and YAML."""
    return [
        {"topic": at.topic, "partition": at.partition, **_producer(producer)}
        for at, producer in found
    ]


def aborted_text(transaction: OpenTransaction) -> str:
    at, producer = transaction
    return (
        f"Aborted the transaction of producer {producer.producer_id} in {at} that began at offset "
        f"{producer.start_offset}."
    )


def _producer(producer: ActiveProducer) -> dict[str, Any]:
    return {
        "producerId": producer.producer_id,
        "producerEpoch": producer.epoch,
        "coordinatorEpoch": _known(producer.coordinator_epoch),
        "lastSequence": _known(producer.last_sequence),
        "lastTimestampMs": _known(producer.last_timestamp_ms),
        "startOffset": _known(producer.start_offset),
    }


def _start_ms(transaction: Transaction) -> int | None:
    """When the present transaction began; None if there is none."""
    return _known(transaction.start_ms) if transaction.partitions else None


def _duration_ms(transaction: Transaction, now_ms: int) -> int | None:
    start_ms = _start_ms(transaction)
    return None if start_ms is None else max(now_ms - start_ms, 0)


def _known(value: int) -> int | None:
    return None if value == NONE else value


def _or_none(value: int | None) -> int | str:
    return NO_VALUE if value is None else value
