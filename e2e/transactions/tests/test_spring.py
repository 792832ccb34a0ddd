"""Spring for Apache Kafka with a transaction manager: a listener that fails, and crashes."""

from collections import Counter

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.kafka.members import wait_for
from e2e.transactions.client import Isolation
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.spring import CRASHED, FAILS_EVERY, transfer
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

PARTITIONS, RECORDS = 2, 50
"""Records of each partition."""
CRASHES_AT = 20
GROUP = "transfer"
DONE_LIMIT_S = 120


def test_each_record_is_transferred_once(cluster: ThreeBrokers, new_topic: NewTopic) -> None:
    topics = source, output = new_topic(PARTITIONS), new_topic(PARTITIONS)
    values = [b"%d" % number for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        records = [Record(value) for value in values]
        Librdkafka().produce(cluster.bootstrap, source, records, partition=partition)
    with transfer(cluster.bootstrap, GROUP, topics, crash_at=CRASHES_AT) as crashes:
        crashes.result(CRASHED)
    # With the transactional ids of the one that crashed, it has their open transaction aborted.
    with transfer(cluster.bootstrap, GROUP, topics) as continues:

        def is_done() -> bool:
            assert not continues.has_ended, continues.result()
            found = [cluster.values(output, partition) for partition in range(PARTITIONS)]
            return all(len(one) >= RECORDS for one in found)

        wait_for("all records are transferred", is_done, DONE_LIMIT_S)
    offsets = cluster.committed_offsets(GROUP, source, range(PARTITIONS))
    assert offsets == [RECORDS] * PARTITIONS
    for partition in range(PARTITIONS):
        assert cluster.values(output, partition) == values
        sent = Counter(cluster.values(output, partition, Isolation.UNCOMMITTED))
        aborted = {value for value, count in sent.items() if count > 1}
        assert aborted >= set(values[1::FAILS_EVERY]), "a listener that failed wrote nothing"
        assert partition != 0 or values[CRASHES_AT] in aborted, "the crash aborted nothing"
