"""Where a batch read begins and ends, what a bad one is told, and a log with gaps."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from chiplog_spark.source.options import BadOption
from chiplog_spark.source.register import ChiplogSource
from chiplog_spark.wire.errors import OffsetOutOfRange, ReplicaDamaged, WireError
from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from tests.spark_kit import produced, rows, rows_by_split

pytestmark = pytest.mark.spark

TOPIC = "ends"
IMPATIENT = {"default.api.timeout.ms": "500"}


@pytest.fixture(scope="module")
def ends(broker: BrokerProcess) -> str:
    """Ten records in partition 0, five in partition 1, in batches of three."""
    create_topic(broker.bootstrap, TOPIC, 2)
    for begin in range(0, 10, 3):
        some = [{"partition": 0, "value": b"%d" % n} for n in range(begin, min(begin + 3, 10))]
        produced(broker, TOPIC, some)
    produced(broker, TOPIC, [{"partition": 1, "value": b"%d" % n} for n in range(5)])
    return TOPIC


def offsets(**by_partition: int) -> str:
    return json.dumps({TOPIC: {name.removeprefix("p"): at for name, at in by_partition.items()}})


def test_a_batch_read_keeps_to_its_ends(broker: BrokerProcess, ends: str) -> None:
    found = rows_by_split(
        broker,
        ends,
        startingOffsets=offsets(p0=4, p1=-2),
        endingOffsets=offsets(p0=8, p1=-1),
        recordsPerSplit="3",
    )
    assert [[(row["partition"], row["offset"]) for row in split] for split in found] == [
        [(0, 4), (0, 5)],
        [(0, 6), (0, 7)],
        [(1, 0), (1, 1)],
        [(1, 2), (1, 3), (1, 4)],
    ]
    assert all(row["value"] == b"%d" % row["offset"] for split in found for row in split)


def test_an_empty_range_has_no_rows(broker: BrokerProcess, ends: str) -> None:
    nothing = offsets(p0=10, p1=5)
    assert rows(broker, ends, startingOffsets=nothing, endingOffsets=nothing) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic": "no-such"}, "UnknownTopic: no-such: no such topic"),
        ({"startingOffsets": offsets(p0=11, p1=0)}, "OffsetOutOfRange: ends-0: offset 11"),
        ({"endingOffsets": offsets(p0=10, p1=6)}, "OffsetOutOfRange: ends-1: offset 6"),
        ({"startingOffsets": offsets(p0=1)}, "option startingOffsets: partition 1 is missing"),
        ({"replica": "99"}, "ReplicaNotThere: ends: broker 99"),
        ({"recordsPerSplit": "none"}, "InvalidOption: option recordsPerSplit"),
        ({"bootstrap.servers": "127.0.0.1:1"}, "Unreachable: no broker answers at 127.0.0.1:1"),
    ],
)
def test_bad_input_is_reported_by_its_name(
    broker: BrokerProcess, ends: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises((WireError, BadOption)) as failed:
        rows(broker, ends, **IMPATIENT, **options)
    assert told in str(failed.value)


def test_batches_as_they_are(broker: BrokerProcess, ends: str) -> None:
    options = {"mode": "batches", "partitions": "0", "recordsPerSplit": "2"}
    by_leader = rows(broker, ends, **options)
    assert [(row["baseOffset"], row["lastOffset"]) for row in by_leader] == [
        *((0, 2), (3, 5), (6, 8), (9, 9))
    ]
    for row in by_leader:
        assert (row["topic"], row["partition"], row["replica"]) == (ends, 0, -1)
        assert row["error"] is None
        assert row["storedCrc"] == row["computedCrc"]
        assert row["recordsCount"] == row["lastOffset"] - row["baseOffset"] + 1
        assert len(row["digest"]) == 32
        assert "payload" not in row
    by_replica = rows(broker, ends, **options, replica="1", withPayload="true")
    assert [row["digest"] for row in by_replica] == [row["digest"] for row in by_leader]
    assert [len(row["payload"]) for row in by_replica] == [row["sizeBytes"] for row in by_leader]
    assert {row["replica"] for row in by_replica} == {1}


def test_a_batch_across_the_beginning_is_a_row(broker: BrokerProcess, ends: str) -> None:
    found = rows(
        broker,
        ends,
        mode="batches",
        partitions="0",
        startingOffsets=offsets(p0=4),
        endingOffsets=offsets(p0=7),
        recordsPerSplit="1",
    )
    assert [(row["baseOffset"], row["lastOffset"]) for row in found] == [(3, 5), (6, 8)]


def test_damage_is_an_error_among_records_and_a_row_among_batches(tmp_path: Path) -> None:
    with subject()(tmp_path) as broker:
        create_topic(broker.bootstrap, "hurt", 1)
        for number in range(3):
            produced(broker, "hurt", [{"value": b"%d" % number * 50}])
        (log,) = (broker.logs / "hurt-0").glob("*.log")
        data = bytearray(log.read_bytes())
        data[-10] ^= 1
        log.write_bytes(data)
        ends = json.dumps({"hurt": {"0": 3}})
        said = {**IMPATIENT, "endingOffsets": ends}
        (row,) = rows(broker, "hurt", mode="batches", replica="1", **said)
        assert (row["replica"], row["baseOffset"], row["lastOffset"]) == (1, 0, 2)
        assert row["error"].startswith("ReplicaDamaged: hurt-0: broker 1 ")
        assert row["storedCrc"] is None
        with pytest.raises(ReplicaDamaged, match="hurt-0"):
            rows(broker, "hurt", **said)


def test_what_retention_took_is_reported_or_passed_over(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "short", 1)
    for number in range(6):
        produced(broker, "short", [{"value": b"%d" % number}])
    said = {"bootstrap.servers": broker.bootstrap, "topic": "short", **IMPATIENT}
    batches = {"mode": "batches", "replica": "1"}
    readers = []
    for more in ({}, {"failOnDataLoss": "false"}, batches):
        source = ChiplogSource(said | more)
        readers.append(source.reader(source.schema()))
    planned = [reader.partitions()[0] for reader in readers]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    gone = TopicPartition("short", 0, 4)
    admin.delete_records([gone])[gone].result(20)
    told, passed, looked = (reader.read(one) for reader, one in zip(readers, planned, strict=True))
    with pytest.raises(OffsetOutOfRange, match="offset 0 on were deleted; the log now starts at 4"):
        list(told)
    (found,) = list[Any](passed)
    assert found.column("offset").to_pylist() == [4, 5]
    (found,) = list[Any](looked)
    assert found.column("baseOffset").to_pylist() == [0, 4, 5]
    assert found.column("lastOffset").to_pylist() == [3, 4, 5]
    errors = found.column("error").to_pylist()
    assert errors[0].startswith("OffsetOutOfRange: short-0: ")
    assert errors[1:] == [None, None]


def test_gaps_that_compaction_leaves_are_no_loss(tmp_path: Path) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(2**20),
        "min.cleanable.dirty.ratio": "0.01",
    }
    value = bytes(4_000)
    count = 1_500
    with subject()(tmp_path, settings={"log.cleaner.backoff.ms": "100"}) as broker:
        create_topic(broker.bootstrap, "table", 1, config)
        sent = [{"key": b"%d" % (n % 3), "value": b"%d" % n + value} for n in range(count)]
        produced(broker, "table", sent)
        wait_until_compacted(broker, "table")
        found = rows(broker, "table", recordsPerSplit="100")
    left = [row["offset"] for row in found]
    assert left == sorted(set(left))
    assert len(left) < count
    newest = {row["key"]: row["offset"] for row in found}
    assert newest == {b"%d" % (n % 3): n for n in range(count - 3, count)}
    for row in found:
        assert row["value"] == b"%d" % row["offset"] + value


def wait_until_compacted(broker: BrokerProcess, topic: str) -> None:
    """Until all but the newest segment is."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        newest = max(int(one.stem) for one in (broker.logs / f"{topic}-0").glob("*.log"))
        checkpoint = broker.logs / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().split("\n")[2:] if checkpoint.exists() else []
        if newest and f"{topic} 0 {newest}" in lines:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{topic} is not compacted")
