"""kafka-transactions.sh: what is open, what hangs, and its end."""

import time
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel

from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from e2e.clients.topics import create_topic
from e2e.kafka.members import leader_of, wait_for
from e2e.kafka.tools import run_tool
from e2e.transactions.client import Isolation
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers
from e2e.transactions.tests.conftest import NewTopic

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(600)]

JAVA = CLIENTS[0]
HANGING_ID, HANGING_EPOCH = 7_000_000, 3
AN_HOUR_MS = 3_600_000
AGREED_LIMIT_S, MARKED_LIMIT_S = 180, 60
BEFORE, HANGS, AFTER = b"before", b"hangs", b"after"


def ask_tool(cluster: ThreeBrokers, *arguments: str) -> list[dict[str, str]]:
    """The rows of the table that the tool prints, by its column names."""
    printed = run_tool("kafka-transactions.sh", "--bootstrap-server", cluster.bootstrap, *arguments)
    head, *rows = [
        [cell.strip() for cell in line.rstrip("\n").split("\t")]
        for line in printed.splitlines()
        if "\t" in line
    ]
    return [dict(zip(head, row, strict=True)) for row in rows]


def listed_and_described(
    cluster: ThreeBrokers, transactional_id: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The rows of an id in the lists of all transactions and in its description, once both name its
    coordinator. While preferred leaders are elected, another broker becomes that in between."""
    rows: list[dict[str, str]] = []

    def do_agree() -> bool:
        listed = [
            one for one in ask_tool(cluster, "list") if one["TransactionalId"] == transactional_id
        ]
        described = ask_tool(cluster, "describe", "--transactional-id", transactional_id)
        rows[:] = [*listed, *described]
        named = [row["Coordinator"] for row in listed]
        named += [row["CoordinatorId"] for row in described]
        return named == 2 * [str(cluster.coordinator_of(transactional_id))]

    wait_for("the tool names one coordinator", do_agree, AGREED_LIMIT_S)
    return rows[0], rows[1]


def test_an_open_transaction_is_listed_and_described(
    cluster: ThreeBrokers, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    partition = ("--topic", topic, "--partition", "1")
    with JAVA.producer(cluster.bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, 1, [b"open"])
        producer.flush()
        listed, described = listed_and_described(cluster, topic)
        assert listed["TransactionState"] == described["TransactionState"] == "Ongoing"
        assert described["TopicPartitions"] == f"{topic}-1"
        assert described["TransactionTimeoutMs"] == "60000"
        assert int(described["TransactionDurationMs"]) >= 0
        (writes,) = ask_tool(cluster, "describe-producers", *partition)
        assert writes["CurrentTransactionStartOffset"] == "0"
        for column in ("ProducerId", "ProducerEpoch"):
            assert writes[column] == described[column]
        assert listed["ProducerId"] == described["ProducerId"]
        # It is open, but does not hang.
        assert ask_tool(cluster, "find-hanging", "--topic", topic) == []
        producer.commit()
    (described,) = ask_tool(cluster, "describe", "--transactional-id", topic)
    assert (described["TransactionState"], described["TopicPartitions"]) == ("CompleteCommit", "")
    (writes,) = ask_tool(cluster, "describe-producers", *partition)
    assert writes["CurrentTransactionStartOffset"] == "None"


@pytest.fixture
def hanging(cluster: ThreeBrokers, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic with one replica, and in its log the record of a transaction that nobody knows.

    Brokers accept no such record, so it is written into the file while the broker is down.
    """
    topic = "hanging"
    create_topic(cluster.bootstrap, topic, 1, {"min.insync.replicas": "1"}, replicas=1)
    with JAVA.producer(cluster.bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, 0, [BEFORE])
        producer.commit()
        # The marker follows the answer to the commit.
        end = len((BEFORE, "its marker"))
        wait_for(
            "the marker is written",
            lambda: cluster.end(topic, 0, IsolationLevel.READ_COMMITTED) == end,
            MARKED_LIMIT_S,
        )
        with cluster.killed(leader_of(cluster.members, topic, 0)):
            (log,) = tmp_path_factory.getbasetemp().rglob(f"{topic}-0/*.log")
            append(log, end)
        producer.begin()
        producer.send(topic, 0, [AFTER])
        producer.commit()
    return topic


def append(log: Path, offset: int) -> None:
    """Append a record of an open transaction to a segment whose next offset is `offset`."""
    options = BatchOptions(
        base_offset=offset,
        leader_epoch=0,
        producer=Producer(producer_id=HANGING_ID, epoch=HANGING_EPOCH, base_sequence=0),
        transactional=True,
    )
    record = NewRecord(HANGS, None, int(time.time() * 1000) - AN_HOUR_MS)
    with log.open("ab") as file:
        file.write(build_batch([record], options))


def test_a_hanging_transaction_is_found_and_aborted(cluster: ThreeBrokers, hanging: str) -> None:
    partition = ("--topic", hanging, "--partition", "0")
    values = [BEFORE, HANGS, AFTER]
    found = JAVA.read(cluster.bootstrap, hanging, 0, len(values), Isolation.UNCOMMITTED)
    assert found == values
    (hangs,) = ask_tool(cluster, "find-hanging", "--topic", hanging)
    start = int(hangs["StartOffset"])
    assert cluster.end(hanging, 0, IsolationLevel.READ_COMMITTED) == start
    assert (hangs["ProducerId"], hangs["ProducerEpoch"]) == (str(HANGING_ID), str(HANGING_EPOCH))
    assert int(hangs["Duration(min)"]) >= AN_HOUR_MS // 60_000
    run_tool(
        *("kafka-transactions.sh", "--bootstrap-server", cluster.bootstrap, "abort", *partition),
        *("--start-offset", str(start)),
    )
    assert ask_tool(cluster, "find-hanging", "--topic", hanging) == []
    found = JAVA.read(cluster.bootstrap, hanging, 0, 2, Isolation.COMMITTED)
    assert found == [BEFORE, AFTER]
