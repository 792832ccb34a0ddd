"""Records out of a topic, by librdkafka's consumer: with a group, or partition by partition."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from chiplog_cli.facts import TopicPartition
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.failures import refused
from chiplog_cli.librdkafka.renewing import TokenRenewal
from chiplog_cli.records import Record

NO_GROUP = "chiplog-cli"
"""librdkafka needs a group id even if the consumer joins no group."""

POLL_S = 0.2
BATCH = 500
MANY = sys.maxsize
TEMPORARY = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._PARTITION_EOF}  # noqa: SLF001
)
"""Errors that librdkafka reports and then recovers from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to read: either with a group, or the given partitions from the given offsets on."""

    topic: str
    group: str | None = None
    from_beginning: bool = False
    starts: Mapping[TopicPartition, int]
    limit: int | None = None
    """End after this many records; None: never."""
    silence_s: float | None = None
    """End after this long without a record; None: never."""
    read_committed: bool = True
    """Read no record of an open or aborted transaction."""


@contextmanager
def reading(connection: Connection, wanted: Reading) -> "Iterator[Iterator[Record]]":
    """The records, one after the other. Raises `BrokerRefused`, and `CannotDo` if the token of the
    login has expired and there is no other.

    With a group, a record counts as consumed when the next one is requested. Consumed offsets are
    committed at the end, and every few seconds before it.
    """
    settings = connection.settings()
    consumer = Consumer(
        {
            **settings,
            "group.id": wanted.group or NO_GROUP,
            "enable.auto.commit": wanted.group is not None,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed" if wanted.read_committed else "read_uncommitted",
            "auto.offset.reset": "earliest" if wanted.from_beginning else "latest",
        }
    )
    try:
        if wanted.group is None:
            consumer.assign([Place(*at, offset) for at, offset in wanted.starts.items()])
        else:
            consumer.subscribe([wanted.topic], on_assign=_on_assign, on_revoke=_on_assign)
        yield _records(consumer, wanted, settings.get("oauth_cb"))
    except KafkaException as error:
        raise refused(error, f"topic '{wanted.topic}'") from error
    finally:
        with _signals_delayed():
            consumer.close()


def _on_assign(_consumer: Consumer, _partitions: list[Place]) -> None:
    """Handler of assignments. It does nothing, but because it is set, partitions change hands only
    while records are polled.

    Otherwise librdkafka gives partitions up at any time, even while their records are being
    printed. These could not be committed then, and another member would print them again.
    """


@contextmanager
def _signals_delayed() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block is left.

    If a signal raised an exception within the callback `_on_assign`, librdkafka's call around it
    would raise another one (github.com/confluentinc/confluent-kafka-python, issue 150).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _records(consumer: Consumer, wanted: Reading, tokens: TokenRenewal | None) -> Iterator[Record]:
    """Poll records until the limit of records, or of seconds without one, is reached; without
    limits it never ends. Raises as `reading`."""
    left = MANY if wanted.limit is None else wanted.limit
    last_s = time.monotonic()
    while left and (wanted.silence_s is None or time.monotonic() - last_s < wanted.silence_s):
        with _signals_delayed():
            messages = consumer.consume(min(left, BATCH), timeout=POLL_S)
        if tokens is not None:
            tokens.check()
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() in TEMPORARY:
                    continue
                raise refused(error, f"topic '{wanted.topic}'")
            yield _record(message)
            if wanted.group is not None:
                consumer.store_offsets(message=message)
            left -= 1
            last_s = time.monotonic()


def _record(message: "Message[bytes, bytes]") -> Record:
    """The record in a message of librdkafka."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None, "a message that came from a broker has a place"
    assert offset is not None, "a message that came from a broker has a place"
    kind, timestamp_ms = message.timestamp()
    return Record(
        topic=message.topic() or "",
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms if kind else -1,  # kind 0 means that there is no timestamp
        key=message.key(),
        value=message.value(),
    )
