"""What brokers say of transactions and their producers, as values. Names are Kafka's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import TopicPartition

NONE = -1
"""In place of a time, a sequence number, an epoch or an offset that does not exist."""


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    """Broker id."""
    producer_id: int
    state: str
    """In Kafka's words, like Ongoing."""


class TransactionFilter(NamedTuple):
    """Which transactions to list: those that pass everything that is given."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int | None = None
    """Only transactions that have been open for longer."""
    id_pattern: str | None = None
    """A regular expression for the transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id as its coordinator describes it."""

    transactional_id: str
    coordinator: int
    """Broker id."""
    state: str
    timeout_ms: int
    start_ms: int
    """Milliseconds since 1970; -1 if there was no transaction yet."""
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    """The partitions of the present transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer as the leader of a partition knows it. -1 stands for what does not exist."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    """Of its last record in this partition."""
    coordinator_epoch: int
    """That of its last marker."""
    start_offset: int
    """The first offset of its open transaction."""

    @property
    def is_in_transaction(self) -> bool:
        return self.start_offset != NONE


Producers = Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefused]
"""The producers of each requested partition, or the error that its leader answered."""
