"""Which transactions hang, and how they are shown."""

from dataclasses import replace

import pytest

from chiplog_cli import hanging, transaction_view
from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.hanging import OpenTransaction
from chiplog_cli.transaction_facts import (
    ActiveProducer,
    Producers,
    Transaction,
    TransactionListing,
)
from tests.views.facts import at

NOW_MS = 10_000_000
WRITING = ActiveProducer(
    producer_id=7,
    epoch=2,
    last_sequence=4,
    last_timestamp_ms=NOW_MS - 120_000,
    coordinator_epoch=3,
    start_offset=12,
)
IDLE = replace(WRITING, producer_id=8, start_offset=-1, coordinator_epoch=-1)
KNOWN = Transaction(
    transactional_id="t",
    coordinator=1,
    state="Ongoing",
    timeout_ms=60_000,
    start_ms=NOW_MS - 3_000,
    producer_id=7,
    producer_epoch=2,
    partitions=(at(0), at(1)),
)


def test_candidates_are_open_for_longer_than_the_timeout() -> None:
    refused = BrokerRefused("X", "no leader")
    producers: Producers = {at(2): (IDLE, WRITING), at(0): (WRITING,), at(1): refused}
    assert hanging.candidates(producers, 119_999, NOW_MS) == [(at(0), WRITING), (at(2), WRITING)]
    assert hanging.candidates(producers, 120_000, NOW_MS) == []
    assert hanging.skipped(producers) == {at(1): refused}


def test_a_transaction_hangs_if_no_coordinator_has_the_partition() -> None:
    found = [OpenTransaction(at(0), WRITING), OpenTransaction(at(2), WRITING)]
    assert hanging.hanging(found, [KNOWN]) == [(at(2), WRITING)]
    assert hanging.hanging(found, []) == found
    assert hanging.hanging(found, [replace(KNOWN, producer_id=9)]) == found


def test_a_transaction_is_found_by_its_first_offset() -> None:
    producers: Producers = {at(0): (IDLE, WRITING), at(1): BrokerRefused("X", "no leader")}
    assert hanging.beginning_at(producers, at(0), 12) == (at(0), WRITING)
    # -1 stands for no transaction, and is not an offset.
    for offset in (11, -1):
        with pytest.raises(CannotDo, match=f"begins at offset {offset}: `chiplog transactions"):
            hanging.beginning_at(producers, at(0), offset)
    with pytest.raises(BrokerRefused, match="no leader"):
        hanging.beginning_at(producers, at(1), 12)


def test_tables_have_the_columns_of_kafkas_tool() -> None:
    listing = TransactionListing("t", 1, 7, "Ongoing")
    assert transaction_view.list_text([listing]).splitlines() == [
        "TransactionalId  Coordinator  ProducerId  TransactionState",
        "t                1            7           Ongoing",
    ]
    header, line, rest = transaction_view.describe_text(
        [KNOWN, replace(KNOWN, state="Empty", partitions=())], NOW_MS
    ).splitlines()
    assert header.split() == [
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
        "TopicPartitions",
    ]
    assert line.split() == [
        *("1", "t", "7", "2", "Ongoing", "60000", str(NOW_MS - 3_000), "3000", "orders-0,orders-1")
    ]
    assert rest.split() == ["1", "t", "7", "2", "Empty", "60000", "None", "None", "-"]
    _, first, second = transaction_view.producers_text([WRITING, IDLE]).splitlines()
    assert first.split() == ["7", "2", "3", "4", str(NOW_MS - 120_000), "12"]
    assert second.split() == ["8", "2", "-1", "4", str(NOW_MS - 120_000), "None"]
    header, line = transaction_view.hanging_text(
        [OpenTransaction(at(0), WRITING)], NOW_MS
    ).splitlines()
    assert header.split()[-2:] == ["LastTimestamp", "Duration(min)"]
    assert line.split() == ["orders", "0", "7", "2", "3", "12", str(NOW_MS - 120_000), "2"]


def test_documents() -> None:
    (document,) = transaction_view.describe_documents([KNOWN], NOW_MS)
    assert (document["startTimeMs"], document["durationMs"]) == (NOW_MS - 3_000, 3_000)
    assert document["partitions"][1] == {"topic": "orders", "partition": 1}
    (document,) = transaction_view.describe_documents([replace(KNOWN, partitions=())], NOW_MS)
    assert (document["startTimeMs"], document["durationMs"]) == (None, None)
    (document,) = transaction_view.hanging_documents([OpenTransaction(at(0), IDLE)])
    assert document == {
        "topic": "orders",
        "partition": 0,
        "producerId": 8,
        "producerEpoch": 2,
        "coordinatorEpoch": None,
        "lastSequence": 4,
        "lastTimestampMs": NOW_MS - 120_000,
        "startOffset": None,
    }
