"""Transactions of Kafka's Java client: records produced in them, and a topic copied in them.

A producer commits one transaction after the other. A copy reads in a group, changes each record,
and commits the group's offsets in the transaction of the records (consume-transform-produce).

After each cell, when all producers are closed, no transaction may be left. What is asked is what
`kafka-transactions.sh` asks: the coordinators what they have not completed (ListTransactions), and
the leaders of all partitions what is open there (DescribeProducers). The topics stay until the end
of the run, so that a transaction that hangs after one cell is also there after the next.
"""

import time
from typing import Any, Final

from chiplog_core.transactions.states import AT_REST, TransactionState
from chiplog_wire.protocol.apis import ApiKey
from e2e.bench import lines
from e2e.bench.java_load import RECORDS_EACH
from e2e.bench.paired import Numbers
from e2e.bench.reassigning import check
from e2e.bench.rig import Rig, create_once, spent
from e2e.kafka.connection import Connection
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.kafka.process import BrokerProcess

PARTITIONS: Final = 6
RECORDS: Final = 500 * RECORDS_EACH
RECORD_BYTES: Final = 1024
PRODUCED: Final = "produced-in-transactions"
COPIED: Final = "copied-in-transactions"
GB: Final = 1e9

END_LIMIT_S: Final = 10.0
"""How long markers may take after the last commit."""
POLL_S: Final = 0.1
ANSWER_LIMIT_S: Final = 60
VERSION: Final = 0
"""Of ListTransactions and DescribeProducers."""
ENDED: Final = AT_REST | {TransactionState.DEAD}


def produce(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Produce in transactions, with a new transactional id."""
    count, transactional_id = rig.effort.scaled(RECORDS), f"producer-{next(rig.numbers)}"
    create_once(broker, PRODUCED, PARTITIONS)
    with spent(broker) as cost:
        per_s = rig.java.produce_in_transactions(
            broker.bootstrap, PRODUCED, transactional_id, count, RECORD_BYTES
        )
    return {
        lines.TRANSACTIONS_PRODUCE: per_s,
        lines.TRANSACTIONS_PRODUCE_CPU: cost.cpu_s / (count * RECORD_BYTES / GB),
        lines.TRANSACTIONS_PRODUCE_HANGING: len(left_open(broker.port)),
    }


def copy(rig: Rig, broker: BrokerProcess, topic: str, records: int) -> Numbers:
    """Copy all records of a topic in transactions, with a new group and transactional id."""
    name = f"copier-{next(rig.numbers)}"
    create_once(broker, COPIED, PARTITIONS)
    with spent(broker) as cost:
        per_s = rig.java.copy_in_transactions(broker.bootstrap, topic, COPIED, name, records)
    return {
        lines.TRANSACTIONS_COPY: per_s,
        lines.TRANSACTIONS_COPY_CPU: cost.cpu_s / (records * RECORD_BYTES / GB),
        lines.TRANSACTIONS_COPY_HANGING: len(left_open(broker.port)),
    }


def left_open(port: int, limit_s: float = END_LIMIT_S) -> frozenset[int]:
    """The producer ids whose transactions have not ended after `limit_s`. A producer has one
    transaction at a time. `port` is on loopback and that of the only broker.

    Raises `Refused` where the broker answers with an error, and `OSError` where it does not answer.
    """
    deadline_s = time.monotonic() + limit_s
    while (found := open_now(port)) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    return found


def open_now(port: int) -> frozenset[int]:
    """The producer ids with a transaction that its coordinator has not completed, or that is open
    in a partition."""
    topics = [
        {"name": name, "partition_indexes": list(leaders)}
        for name, leaders in metadata(LOOPBACK, port).leaders.items()
    ]
    with Connection((LOOPBACK, port), ANSWER_LIMIT_S) as connection:
        listed = connection.ask(ApiKey.LIST_TRANSACTIONS, VERSION, {})
        described = connection.ask(ApiKey.DESCRIBE_PRODUCERS, VERSION, {"topics": topics})
    return not_completed(listed) | open_in_partitions(described)


def not_completed(listed: Any) -> frozenset[int]:
    """The producer ids of a ListTransactions answer whose transactions are not complete."""
    check(listed)
    return frozenset(
        one.producer_id for one in listed.transaction_states if one.transaction_state not in ENDED
    )


def open_in_partitions(described: Any) -> frozenset[int]:
    """The producer ids of a DescribeProducers answer with an open transaction."""
    partitions = [one for topic in described.topics for one in topic.partitions]
    for partition in partitions:
        check(partition)
    return frozenset(
        producer.producer_id
        for partition in partitions
        for producer in partition.active_producers
        if producer.current_txn_start_offset >= 0
    )
