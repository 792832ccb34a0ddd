"""Moves of replicas: the requests, what failed, and one move on brokers of this machine."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from chiplog_wire.protocol.errors import ErrorCode
from e2e.bench.lines import MOVES
from e2e.bench.moves import PARTITIONS, following, measured, move, seconds_to_move
from e2e.bench.paired import NotMeasured
from e2e.bench.reassigning import Refused, bytes_of, bytes_on, check
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.members import Members, ask
from e2e.loopback.cluster import LoopbackCluster

TOPIC = "moving"
RECORDS = [Record(b"%d" % number * 1_000) for number in range(10)]
NOBODY = cast("Members", SimpleNamespace(title="Apache Kafka"))


@pytest.mark.parametrize(("broker_id", "next_id"), [(1, 2), (2, 3), (3, 1)])
def test_the_brokers_take_turns(broker_id: int, next_id: int) -> None:
    assert following(broker_id, [3, 1, 2]) == next_id


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("not within 300 s: it moved\nmore"),
        Refused("INVALID_REPLICA_ASSIGNMENT: broker 2 is not running"),
        KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)),
    ],
)
def test_a_failure_is_a_reason_of_one_line(error: Exception) -> None:
    with pytest.raises(NotMeasured, match=r"^Apache Kafka did not move the topic: .+$") as caught:
        measured(NOBODY, failing(error))
    assert "\n" not in str(caught.value)


def test_what_does_not_fail_is_passed_on() -> None:
    assert measured(NOBODY, lambda: 7) == 7


def test_a_refusal_names_error_and_message() -> None:
    check(SimpleNamespace(error_code=ErrorCode.none))
    code = ErrorCode.invalid_replica_assignment
    with pytest.raises(Refused, match=r"^INVALID_REPLICA_ASSIGNMENT: broker 2 is not running$"):
        check(SimpleNamespace(error_code=code, error_message="broker 2 is not running"))
    with pytest.raises(Refused, match=r"^INVALID_REPLICA_ASSIGNMENT$"):
        check(SimpleNamespace(error_code=code))


def log_dirs(**sizes: tuple[int, ...]) -> Any:
    """A DescribeLogDirs answer with one directory: the size of each partition, by topic."""
    topics = [
        SimpleNamespace(
            name=name, partitions=[SimpleNamespace(partition_size=one) for one in given]
        )
        for name, given in sizes.items()
    ]
    directory = SimpleNamespace(error_code=ErrorCode.none, topics=topics)
    return SimpleNamespace(error_code=ErrorCode.none, results=[directory])


def test_the_bytes_of_a_topic_are_those_of_all_its_replicas() -> None:
    answer = log_dirs(moving=(3, 4), other=(100,))
    assert [bytes_of(TOPIC, answer), bytes_of("gone", answer)] == [7, 0]


def test_a_directory_that_is_offline_has_no_size() -> None:
    answer = log_dirs(moving=(3,))
    answer.results[0].error_code = ErrorCode.kafka_storage_error
    with pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
        bytes_of(TOPIC, answer)


@pytest.mark.clients
@pytest.mark.timeout(900)
def test_a_topic_moves_from_broker_to_broker(tmp_path: Path) -> None:
    with LoopbackCluster(tmp_path / "cluster") as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        seconds_to_move(cluster, TOPIC, 2)
        for partition in range(PARTITIONS):
            Librdkafka().produce(cluster.bootstrap, TOPIC, RECORDS, partition=partition)
        assert move(cluster, TOPIC, MOVES)[MOVES] > 0
        assert set(ask(cluster).leaders[TOPIC].values()) == {3}
        sizes_bytes = [bytes_on(port, TOPIC) for _, port in sorted(cluster.ports().items())]
        assert sizes_bytes[:2] == [0, 0]
        assert sizes_bytes[2] > PARTITIONS * sum(len(one.value or b"") for one in RECORDS)
