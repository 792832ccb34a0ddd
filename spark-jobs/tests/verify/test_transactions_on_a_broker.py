"""A verification of transactions that a real producer wrote to a broker by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chiplog_broker.storage.transaction_index import ENTRY
from chiplog_core.model.spark_result import Check, Result
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.members import wait_for
from e2e.spark.planted import give_to, overwrite, segments
from tests.transactions_kit import Transactional, interleaved, open_transaction
from tests.verify.test_one_broker import clean_point

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

Verified = Callable[..., Result]
COMMIT, ABORT, OTHER = bytes([0, 0, 0, 1]), bytes([0, 0, 0, 0]), bytes([0, 0, 0, 9])
"""The key of a marker: version and type."""


def told(result: Result) -> list[tuple[str, int, int | None, int | None]]:
    return [(one.check.value, one.partition, one.offset, one.replica) for one in result.violations]


def index_of(broker: StandaloneBroker, topic: str) -> Path:
    (path,) = (broker.logs / f"{topic}-0").glob("*.txnindex")
    return path


def log_of(broker: StandaloneBroker, topic: str) -> Path:
    (path,) = segments(broker.logs / f"{topic}-0")
    return path


@pytest.mark.parametrize("size", [1, 3, 100])
def test_intact_transactions(broker: StandaloneBroker, verified: Verified, size: int) -> None:
    topic = f"intact-{size}"
    create_topic(broker.bootstrap, topic, 1)
    interleaved(broker, topic, topic)
    ended = verified(broker.bootstrap, topic, records_per_split=size)
    assert told(ended) == []
    assert end_offsets(broker.bootstrap, topic, [0]) == [12]
    # Four end markers are neither records nor lost ones.
    assert ended.summary["coverage"]["records"] == 8
    with open_transaction(broker, topic, topic, b"a12"):
        other = Transactional(broker, f"{topic}-other")
        other.begin()
        other.write(topic, b"c13")
        other.commit()
        result = verified(broker.bootstrap, topic, records_per_split=size)
        assert told(result) == []
        assert result.summary["coverage"]["records"] == 10


def test_a_compacted_topic(broker: StandaloneBroker, verified: Verified) -> None:
    """While the broker compacts it, and afterwards."""
    topic = "intact-compacted"
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(2**20),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    create_topic(broker.bootstrap, topic, 1, config)
    producers = [Transactional(broker, f"{topic}-{number}") for number in range(2)]
    for number in range(30):
        for producer in producers:
            producer.begin()
            producer.write(topic, bytes(60_000), key=b"%d" % (number % 3))
        (producers[0].abort if number % 3 else producers[0].commit)()
        (producers[1].commit if number % 5 else producers[1].abort)()
        if number % 10 == 9:
            assert told(verified(broker.bootstrap, topic, records_per_split=20)) == []
    wait_for("compaction", lambda: clean_point(broker.bootstrap, topic) > 0)
    with open_transaction(broker, topic, topic, b"a"):
        result = verified(broker.bootstrap, topic, records_per_split=20)
    assert told(result) == []
    assert result.summary["coverage"]["records"] < 60


def test_damaged_transactions(own_broker: StandaloneBroker, verified: Verified) -> None:
    """Bytes that no broker can know to be wrong, because checksums are right."""
    broker = own_broker
    topics = ("decision", "unreadable", "another", "list")
    for topic in topics:
        create_topic(broker.bootstrap, topic, 1)
        interleaved(broker, topic, topic)
    assert told(verified(broker.bootstrap, *topics)) == []
    # The marker at 5 commits the batches at 0 and 4.
    overwrite(log_of(broker, "decision"), 5, COMMIT, ABORT)
    overwrite(log_of(broker, "unreadable"), 5, COMMIT, OTHER)
    # The one at 10 commits the batch at 8, which has no marker then.
    give_to(log_of(broker, "another"), 10, 99_999)
    # The second entry is the transaction that begins at 9.
    path = index_of(broker, "list")
    entries = list(ENTRY.iter_unpack(path.read_bytes()))
    assert [entry[2] for entry in entries] == [2, 9]
    moved = (*entries[1][:2], 20, *entries[1][3:])
    with path.open("r+b") as file:
        file.seek(ENTRY.size)
        file.write(ENTRY.pack(*moved))
    for topic, expected in (
        ("decision", ("TransactionIndex", 0, 0, 1)),
        ("unreadable", ("TransactionMarker", 0, 5, 1)),
        ("another", ("LastStableOffset", 0, 8, 1)),
        ("list", ("TransactionIndex", 0, 9, 1)),
    ):
        assert told(verified(broker.bootstrap, topic)) == [expected]
    result = verified(broker.bootstrap, "list")
    assert result.violations[0].message == (
        "the batch at offset 9 is of a transaction that is aborted at offset 11, but the broker"
        " does not list it among the aborted ones (.txnindex)"
    )
    others = tuple(check for check in Check if check is not Check.TRANSACTION_INDEX)
    assert told(verified(broker.bootstrap, "list", checks=others)) == []


def test_a_transaction_index_that_was_lost(
    own_broker: StandaloneBroker, verified: Verified
) -> None:
    """The broker does not notice it when it starts: most segments have no such file."""
    broker = own_broker
    create_topic(broker.bootstrap, "lost", 1)
    interleaved(broker, "lost", "lost")
    broker.stop()
    index_of(broker, "lost").unlink()
    broker.start()
    found = verified(broker.bootstrap, "lost")
    # Of each aborted transaction the first batch.
    assert told(found) == [("TransactionIndex", 0, 2, 1), ("TransactionIndex", 0, 9, 1)]
