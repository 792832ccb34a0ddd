"""Transactions in the bench: what they leave in topics, and that an open one is seen."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from chiplog_wire.protocol.errors import ErrorCode
from e2e.bench import lines, transactions
from e2e.bench.java_load import RECORDS_EACH
from e2e.bench.paired import TRIAL
from e2e.bench.reassigning import Refused
from e2e.bench.rig import Rig, rig
from e2e.bench.transactions import (
    COPIED,
    PARTITIONS,
    PRODUCED,
    RECORD_BYTES,
    RECORDS,
    left_open,
    not_completed,
    open_in_partitions,
    open_now,
)
from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Record
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic, values_in

NONE = ErrorCode.none
SOURCE = "source"
CALL_LIMIT_S = 60


def listing(**states: str) -> Any:
    """A ListTransactions answer: producer `p1` has id 1, and so on."""
    found = [
        SimpleNamespace(producer_id=int(name[1:]), transaction_state=state)
        for name, state in states.items()
    ]
    return SimpleNamespace(error_code=NONE, transaction_states=found)


def partition(*starts: int, code: ErrorCode = NONE) -> Any:
    """A partition of a DescribeProducers answer: producer 0 has its transaction begin at the first
    of `starts`, or -1 for none, and so on."""
    producers = [
        SimpleNamespace(producer_id=number, current_txn_start_offset=start)
        for number, start in enumerate(starts)
    ]
    return SimpleNamespace(error_code=code, active_producers=producers)


def description(*topics: list[Any]) -> Any:
    return SimpleNamespace(topics=[SimpleNamespace(partitions=one) for one in topics])


def test_what_its_coordinator_has_not_completed_is_left() -> None:
    answer = listing(
        p1="Empty",
        p2="Ongoing",
        p3="PrepareCommit",
        p4="PrepareAbort",
        p5="CompleteCommit",
        p6="CompleteAbort",
        p7="Dead",
        p8="PrepareEpochFence",
    )
    assert not_completed(answer) == {2, 3, 4, 8}


def test_what_is_open_in_any_partition_is_left() -> None:
    answer = description([partition(-1, 0, -1), partition()], [partition(-1, -1, 7)])
    assert open_in_partitions(answer) == {1, 2}


def test_an_error_is_not_taken_for_nothing() -> None:
    answer = description([partition(code=ErrorCode.not_leader_or_follower)])
    with pytest.raises(Refused, match="NOT_LEADER_OR_FOLLOWER"):
        open_in_partitions(answer)
    loading = SimpleNamespace(error_code=ErrorCode.coordinator_load_in_progress)
    with pytest.raises(Refused, match="COORDINATOR_LOAD_IN_PROGRESS"):
        not_completed(loading)


@pytest.mark.clients
@pytest.mark.timeout(300)
def test_an_open_transaction_is_seen_until_it_ends(tmp_path: Path) -> None:
    with StandaloneBroker(tmp_path / "broker") as broker:
        assert left_open(broker.port) == frozenset()
        create_topic(broker.bootstrap, SOURCE, 1)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "one", **QUIET}
        )
        producer.init_transactions(CALL_LIMIT_S)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce(SOURCE, b"value")
            assert producer.flush(CALL_LIMIT_S) == 0
            assert len(left_open(broker.port, limit_s=0)) == 1
            end(CALL_LIMIT_S)
            assert left_open(broker.port) == frozenset()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "bench", TRIAL, StandaloneBroker) as one:
        yield one


@pytest.mark.clients
@pytest.mark.timeout(600)
def test_all_that_is_counted_is_committed(trial: Rig) -> None:
    broker = trial.ours
    found = transactions.produce(trial, broker)
    assert found[lines.TRANSACTIONS_PRODUCE] > 0
    assert found[lines.TRANSACTIONS_PRODUCE_HANGING] == 0
    values = committed(broker.bootstrap, PRODUCED)
    assert len(values) == TRIAL.scaled(RECORDS)
    assert {len(one) for one in values} == {RECORD_BYTES}


@pytest.mark.clients
@pytest.mark.timeout(600)
def test_a_copy_has_each_record_once_and_commits_its_offsets(trial: Rig) -> None:
    broker, count = trial.ours, 3 * RECORDS_EACH + 7
    create_topic(broker.bootstrap, SOURCE, PARTITIONS)
    records = [Record(b"a%d" % number) for number in range(count)]
    for index in range(PARTITIONS):
        Librdkafka().produce(broker.bootstrap, SOURCE, records[index::PARTITIONS], partition=index)
    # The program ends at what it does not understand, and the next order starts it again.
    with pytest.raises(RuntimeError, match="the Java load ended at nonsense:"):
        trial.java.order("nonsense")
    found = transactions.copy(trial, broker, SOURCE, count)
    assert found[lines.TRANSACTIONS_COPY] > 0
    assert found[lines.TRANSACTIONS_COPY_HANGING] == 0
    assert committed(broker.bootstrap, COPIED) == sorted(b"b%d" % one for one in range(count))
    assert offsets_of_groups(broker.bootstrap) == [
        len(records[index::PARTITIONS]) for index in range(PARTITIONS)
    ]
    assert open_now(broker.port) == frozenset()


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all committed records of a topic, sorted."""
    return sorted(
        value for index in range(PARTITIONS) for value in values_in(bootstrap, topic, index)
    )


def offsets_of_groups(bootstrap: str) -> list[int]:
    """The committed offsets of the only group, by partition of the source."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (group,) = admin.list_consumer_groups().result(CALL_LIMIT_S).valid
    where = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group.group_id, where)], require_stable=True
    )
    answer = asked[group.group_id].result(CALL_LIMIT_S)
    return [one.offset for one in answer.topic_partitions]
