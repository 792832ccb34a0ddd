"""Kafka's TransactionalMessageCopier while brokers are killed: each record once in the output."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.lanes import is_full
from e2e.loopback.cluster import SIZE
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.copiers import GROUP, Copiers
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(2_400)]

PARTITIONS = 2
RECORDS = 20_000 if is_full() else 2_000
"""Records of each partition in each round."""
LASTS_S, WHOLE_S = (300, 20) if is_full() else (30, 2)
KILLS_AT_LEAST = SIZE + 1
"""Each broker once, and one of them again. On a slow machine this takes longer than `LASTS_S`."""
END_LIMIT_S = 600


@pytest.fixture
def copiers(cluster: ThreeBrokers, new_topic: NewTopic) -> Iterator[Copiers]:
    one = Copiers(cluster.bootstrap, (new_topic(PARTITIONS), new_topic(PARTITIONS)), PARTITIONS)
    yield one
    one.kill()


def test_each_record_is_copied_once(
    cluster: ThreeBrokers, copiers: Copiers, tmp_path: Path
) -> None:
    until_s, kills, values = time.monotonic() + LASTS_S, 0, list[bytes]()
    victims = itertools.cycle(range(1, SIZE + 1))

    def is_over(kills: int) -> bool:
        return kills >= KILLS_AT_LEAST and time.monotonic() >= until_s

    for number in itertools.count():
        new = [b"%d" % (len(values) + one) for one in range(RECORDS)]
        for partition in range(PARTITIONS):
            records = [Record(value) for value in new]
            Librdkafka().produce(cluster.bootstrap, copiers.input, records, partition=partition)
        values += new
        copiers.start(tmp_path / f"round-{number}")
        kills = cluster.kill_in_turn(
            victims, lambda kills: copiers.run and not is_over(kills), WHOLE_S, kills
        )
        statuses = copiers.wait(END_LIMIT_S)
        printed = sorted((tmp_path / f"round-{number}").iterdir())
        assert statuses == [0] * PARTITIONS, [one.read_text()[-2_000:] for one in printed]
        if is_over(kills):
            break
    check_copied(cluster, copiers, values)
    stored = sum(end_offsets(cluster.bootstrap, copiers.output, range(PARTITIONS)))
    measured.note(
        f"TransactionalMessageCopier: {PARTITIONS * len(values)} records copied once each, with "
        f"{kills} brokers killed; {stored} offsets in the output with what was aborted"
    )
    assert stored > PARTITIONS * len(values), "nothing was aborted"


def check_copied(cluster: ThreeBrokers, copiers: Copiers, values: list[bytes]) -> None:
    """Each partition of the output has the values in order, and the group has read the input."""
    for partition in range(PARTITIONS):
        ends = {cluster.end(copiers.output, partition, one) for one in IsolationLevel}
        assert len(ends) == 1, f"a transaction is open: {ends}"
        copied = cluster.values(copiers.output, partition)
        counts = Counter(copied)
        missing = [one for one in values if one not in counts]
        twice = [one for one, count in counts.items() if count > 1]
        assert (missing[:5], twice[:5]) == ([], []), (len(missing), len(twice))
        assert copied == values, "the order differs"
    offsets = cluster.committed_offsets(GROUP, copiers.input, range(PARTITIONS))
    assert offsets == [len(values)] * PARTITIONS
