"""Which transactions hang: no coordinator will end them (KIP-664).

The leader of a partition has a transaction open, and the coordinator has none of this producer in
this partition. Consumers with `read_committed` get nothing behind its first record then, for good.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import TopicPartition
from chiplog_cli.transaction_facts import ActiveProducer, Producers, Transaction


class OpenTransaction(NamedTuple):
    """A transaction that is open in one partition, as its leader knows it."""

    at: TopicPartition
    producer: ActiveProducer


def candidates(producers: Producers, max_timeout_ms: int, now_ms: int) -> list[OpenTransaction]:
    """The open transactions whose producers have written nothing for longer than `max_timeout_ms`,
    in the order of the partitions. `now_ms` is in milliseconds since 1970."""
    return [
        OpenTransaction(at, producer)
        for at, found in sorted(producers.items(), key=lambda one: one[0])
        if not isinstance(found, BrokerRefused)
        for producer in found
        if producer.is_in_transaction and now_ms - producer.last_timestamp_ms > max_timeout_ms
    ]


def hanging(
    found: Iterable[OpenTransaction], transactions: Iterable[Transaction]
) -> list[OpenTransaction]:
    """Those that their coordinators do not know. `transactions` are all that have one of their
    producer ids."""
    partitions: dict[int, set[TopicPartition]] = {}
    for transaction in transactions:
        partitions.setdefault(transaction.producer_id, set()).update(transaction.partitions)
    return [one for one in found if one.at not in partitions.get(one.producer.producer_id, ())]


def beginning_at(producers: Producers, at: TopicPartition, start_offset: int) -> OpenTransaction:
    """The open transaction in a partition that begins at this offset. Raises `CannotDo` if there is
    none, and `BrokerRefused` if the leader does not answer."""
    found = producers[at]
    if isinstance(found, BrokerRefused):
        raise found
    for producer in found:
        if producer.is_in_transaction and producer.start_offset == start_offset:
            return OpenTransaction(at, producer)
    raise CannotDo(
        f"no transaction in {at} is open that begins at offset {start_offset}",
        "`chiplog transactions describe-producers` shows the open ones",
    )


def skipped(producers: Producers) -> Mapping[TopicPartition, BrokerRefused]:
    """The partitions whose producers are not known, and why."""
    return {at: found for at, found in producers.items() if isinstance(found, BrokerRefused)}
