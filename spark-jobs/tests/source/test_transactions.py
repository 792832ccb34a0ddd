"""Reading transactions of a real producer: what is committed, and how far."""

import json
from typing import Any

import pytest

from chiplog_spark.source.register import ChiplogSource
from chiplog_spark.wire.errors import OffsetOutOfRange
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.process import BrokerProcess
from tests.spark_kit import produced, rows, rows_by_split
from tests.transactions_kit import Transactional, all_values, interleaved, open_transaction

pytestmark = pytest.mark.spark

UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def values(found: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in found]


@pytest.fixture(scope="module")
def mixed(broker: BrokerProcess) -> tuple[str, list[bytes]]:
    """A topic with ended transactions only, whose last batch is a marker, and what is committed."""
    topic = "transactions-mixed"
    create_topic(broker.bootstrap, topic, 1)
    return topic, interleaved(broker, topic, topic)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_only_committed_records_wherever_splits_begin(
    broker: BrokerProcess, mixed: tuple[str, list[bytes]], size: int
) -> None:
    topic, committed = mixed
    assert end_offsets(broker.bootstrap, topic, [0]) == [12]
    found = rows(broker, topic, recordsPerSplit=str(size))
    assert values(found) == committed
    assert [row["offset"] for row in found] == [int(value[1:]) for value in committed]
    everything = rows(broker, topic, recordsPerSplit=str(size), **UNCOMMITTED)
    assert values(everything) == all_values(committed)


@pytest.mark.parametrize("start", range(13))
def test_only_committed_records_from_any_offset_to_any_other(
    broker: BrokerProcess, mixed: tuple[str, list[bytes]], start: int
) -> None:
    topic, committed = mixed
    for end in range(start, 13):
        found = rows(
            broker,
            topic,
            startingOffsets=json.dumps({topic: {"0": start}}),
            endingOffsets=json.dumps({topic: {"0": end}}),
        )
        assert values(found) == [one for one in committed if start <= int(one[1:]) < end]


def test_one_replica_reads_the_same(broker: BrokerProcess, mixed: tuple[str, list[bytes]]) -> None:
    topic, committed = mixed
    assert values(rows(broker, topic, replica="1")) == committed


def test_batches_are_read_as_they_are_stored(
    broker: BrokerProcess, mixed: tuple[str, list[bytes]]
) -> None:
    topic, _ = mixed
    found = rows(broker, topic, mode="batches")
    ends = [(row["baseOffset"], row["lastOffset"]) for row in found]
    assert ends == [(0, 1), (2, 3), *((n, n) for n in range(4, 12))]
    assert [row["baseOffset"] for row in found if row["attributes"] & 0x20] == [5, 7, 10, 11]


def test_reading_ends_at_the_last_stable_offset(broker: BrokerProcess) -> None:
    topic = "transactions-open"
    create_topic(broker.bootstrap, topic, 1)
    produced(broker, topic, [{"partition": 0, "value": b"plain 0"}])
    with open_transaction(broker, topic, topic, b"open 1"):
        produced(broker, topic, [{"partition": 0, "value": b"plain 2"}])
        assert values(rows(broker, topic)) == [b"plain 0"]
        everything = [b"plain 0", b"open 1", b"plain 2"]
        assert values(rows(broker, topic, **UNCOMMITTED)) == everything
        beyond = json.dumps({topic: {"0": 2}})
        with pytest.raises(OffsetOutOfRange, match="offset 2 cannot be read: offsets 0 to 1 can"):
            rows(broker, topic, endingOffsets=beyond)
    assert values(rows(broker, topic)) == [b"plain 0", b"plain 2"]
    assert end_offsets(broker.bootstrap, topic, [0]) == [4]


def test_a_topic_with_nothing_but_aborted_records_is_empty(broker: BrokerProcess) -> None:
    topic = "transactions-aborted"
    create_topic(broker.bootstrap, topic, 1)
    with open_transaction(broker, topic, topic, b"aborted"):
        pass
    assert rows(broker, topic) == []
    assert rows_by_split(broker, topic, recordsPerSplit="1") == [[], []]


def triggers_of(broker: BrokerProcess, topic: str, **options: str) -> Any:
    said = {"bootstrap.servers": broker.bootstrap, "topic": topic, "startingOffsets": "earliest"}
    source = ChiplogSource(said | options)
    return source.streamReader(source.schema())


def read_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    found: list[bytes] = []
    for split in reader.partitions(start, end):
        for chunk in reader.read(split):
            found += chunk.column("value").to_pylist()
    return found


def test_a_stream_gets_each_transaction_once_when_it_is_committed(broker: BrokerProcess) -> None:
    topic = "transactions-stream"
    create_topic(broker.bootstrap, topic, 1)
    reader = triggers_of(broker, topic)
    limit = reader.getDefaultReadLimit()
    at = reader.initialOffset()
    producer = Transactional(broker, topic)
    found, ends = [], []
    for number in range(4):
        producer.begin()
        producer.write(topic, b"%d" % number)
        while_open = reader.latestOffset(at, limit)
        assert read_between(reader, at, while_open) == []
        (producer.commit if number % 2 else producer.abort)()
        end = reader.latestOffset(while_open, limit)
        found += read_between(reader, while_open, end)
        assert reader.reportLatestOffset() == end
        ends.append(end[topic]["0"])
        at = end
    assert found == [b"1", b"3"]
    assert ends == [2, 4, 6, 8]
    assert reader.latestOffset(at, limit) == at


@pytest.mark.parametrize("available_now", [True, False])
def test_a_stream_that_has_read_uncommitted_records_waits_for_the_last_stable_offset(
    broker: BrokerProcess, *, available_now: bool
) -> None:
    topic = f"transactions-switch-{available_now}"
    create_topic(broker.bootstrap, topic, 1)
    before = triggers_of(broker, topic, **UNCOMMITTED)
    limit = before.getDefaultReadLimit()
    with open_transaction(broker, topic, topic, b"open 0"):
        at = before.latestOffset(before.initialOffset(), limit)
        assert at == {topic: {"0": 1}}
        reader = triggers_of(broker, topic)
        if available_now:
            reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(at, limit) == at
        with pytest.raises(OffsetOutOfRange, match="read up to 9, but now it ends at 0"):
            reader.latestOffset({topic: {"0": 9}}, limit)
    produced(broker, topic, [{"partition": 0, "value": b"plain 2"}])
    reader = triggers_of(broker, topic)
    end = reader.latestOffset(at, limit)
    assert end == {topic: {"0": 3}}
    assert read_between(reader, at, end) == [b"plain 2"]
