"""A leader that does not know yet that it was replaced, and a producer that comes back to it.

kafka-python does that: it takes any broker's metadata for the newest. Here its requests are sent
one by one, because the library does so only by chance.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chiplog_broker.partitions.refusals import ALIKE_S
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from e2e import measured
from e2e.bench.reassigning import Reassigning
from e2e.clients.by_librdkafka import QUIET
from e2e.kafka.connection import Connection
from e2e.kafka.members import leader_of, wait_for
from e2e.kafka.ports import LOOPBACK
from e2e.loopback.late import LateCluster

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

TOPIC = "orders"
LATE, NEXT = 3, 1
LATE_S = 0.8
LIMIT_S = 30
PRODUCE_VERSION = 7
ALL_IN_SYNC = -1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LateCluster]:
    with LateCluster(tmp_path / "cluster", LATE, LATE_S) as one:
        yield one


def send(port: int, sequence: int) -> ErrorCode:
    """Send one numbered batch to a broker; returns the error code of the answer."""
    producer = Producer(producer_id=9_000, epoch=0, base_sequence=sequence)
    batch = bytes(build_batch([NewRecord(value=b"x")], BatchOptions(producer=producer)))
    topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    values = {"acks": ALL_IN_SYNC, "timeout": LIMIT_S * 1000, "topic_data": [topic]}
    with Connection((LOOPBACK, port), LIMIT_S) as connection:
        (answered,) = connection.ask(ApiKey.PRODUCE, PRODUCE_VERSION, values).responses
    (partition,) = answered.partition_responses
    return ErrorCode(partition.error_code)


def test_the_producer_is_sent_to_the_new_leader(cluster: LateCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    topic = NewTopic(TOPIC, 1, replica_assignment=[[LATE]])
    admin.create_topics([topic])[TOPIC].result(LIMIT_S)
    assert leader_of(cluster, TOPIC, 0) == LATE
    ports = cluster.ports()
    wait_for("the first batch", lambda: send(ports[LATE], 0) is ErrorCode.none, LIMIT_S)
    time.sleep(ALIKE_S + LATE_S)  # until then any gap gets this answer
    with Reassigning(ports[NEXT], TOPIC, 1) as reassigning:
        reassigning.order(NEXT)
    wait_for("the next leader", lambda: send(ports[NEXT], 1) is ErrorCode.none, LIMIT_S)
    began_s, answers = time.monotonic(), []
    while time.monotonic() - began_s < 2 * LATE_S:
        answers.append(send(ports[LATE], 2))
    measured.note(f"a leader replaced {LATE_S} s ago: {len(answers)} answers, {set(answers)}")
    assert set(answers) == {ErrorCode.not_leader_or_follower}
    assert send(ports[NEXT], 2) is ErrorCode.none
