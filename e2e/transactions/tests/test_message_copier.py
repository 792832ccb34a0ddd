"""Kafka's TransactionalMessageCopier while brokers are killed: each record once in the output."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)

from e2e import measured
from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import READ_LIMIT_S, Record
from e2e.clients.topics import end_offsets
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE
from e2e.transactions.client import Isolation
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.copiers import GROUP, Copiers
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(2_400)]

PARTITIONS = 2
RECORDS = 20_000 if is_full() else 2_000
"""Records of each partition in each round."""
LASTS_S, KILL_EVERY_S = (300, 20) if is_full() else (30, 2)
KILLS_AT_LEAST = SIZE + 1
"""Each broker once, and one of them again. On a slow machine this takes longer than `LASTS_S`."""
DOWN_S = 1
END_LIMIT_S = 600


@pytest.fixture
def copiers(cluster: ThreeBrokers, new_topic: NewTopic) -> Iterator[Copiers]:
    one = Copiers(cluster.bootstrap, (new_topic(PARTITIONS), new_topic(PARTITIONS)), PARTITIONS)
    yield one
    one.kill()


def test_each_record_is_copied_once(
    cluster: ThreeBrokers, copiers: Copiers, tmp_path: Path
) -> None:
    began_s, kills, values = time.monotonic(), 0, list[bytes]()
    for number in itertools.count():
        new = [b"%d" % (len(values) + one) for one in range(RECORDS)]
        for partition in range(PARTITIONS):
            records = [Record(value) for value in new]
            Librdkafka().produce(cluster.bootstrap, copiers.input, records, partition=partition)
        values += new
        copiers.start(tmp_path / f"round-{number}")
        kills = kill_brokers(cluster, copiers, kills, began_s + LASTS_S)
        statuses = copiers.wait(END_LIMIT_S)
        printed = sorted((tmp_path / f"round-{number}").iterdir())
        assert statuses == [0] * PARTITIONS, [one.read_text()[-2_000:] for one in printed]
        if kills >= KILLS_AT_LEAST and time.monotonic() > began_s + LASTS_S:
            break
    check_copied(cluster, copiers, values)
    stored = sum(end_offsets(cluster.bootstrap, copiers.output, range(PARTITIONS)))
    measured.note(
        f"TransactionalMessageCopier: {PARTITIONS * len(values)} records copied once each, with "
        f"{kills} brokers killed; {stored} offsets in the output with what was aborted"
    )
    assert stored > PARTITIONS * len(values), "nothing was aborted"


def kill_brokers(cluster: ThreeBrokers, copiers: Copiers, kills: int, until_s: float) -> int:
    """Kill one broker after the other while the copiers run; returns `kills` and the new ones.

    Ends at `until_s` at the earliest, and not before there were `KILLS_AT_LEAST` in all.
    """
    while True:
        next_s = time.monotonic() + KILL_EVERY_S
        while copiers.run and time.monotonic() < next_s:
            time.sleep(0.1)
        if not copiers.run or (kills >= KILLS_AT_LEAST and time.monotonic() >= until_s):
            return kills
        with cluster.killed(kills % SIZE + 1):
            time.sleep(DOWN_S)
        kills += 1


def check_copied(cluster: ThreeBrokers, copiers: Copiers, values: list[bytes]) -> None:
    """Each partition of the output has the values in order, and the group has read the input."""
    for partition in range(PARTITIONS):
        copied = committed(cluster, copiers.output, partition)
        counts = Counter(copied)
        missing = [one for one in values if one not in counts]
        twice = [one for one, count in counts.items() if count > 1]
        assert (missing[:5], twice[:5]) == ([], []), (len(missing), len(twice))
        assert copied == values, "the order differs"
    where = [TopicPartition(copiers.input, partition) for partition in range(PARTITIONS)]
    asked = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(GROUP, where)], require_stable=True
    )
    offsets = [one.offset for one in asked[GROUP].result().topic_partitions]
    assert offsets == [len(values)] * PARTITIONS


def committed(cluster: ThreeBrokers, topic: str, partition: int) -> list[bytes]:
    """The values of all committed records of a partition in which no transaction is open."""
    ends = {cluster.end(topic, partition, one) for one in IsolationLevel}
    assert len(ends) == 1, f"a transaction is open: {ends}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": Isolation.COMMITTED.value,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while (message := consumer.poll(READ_LIMIT_S)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()
    raise TimeoutError(f"{len(found)} records, and then nothing")
