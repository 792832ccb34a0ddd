"""Exports of a real broker by Spark, read back by pyarrow, beside what librdkafka reads."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from chiplog_core.model.spark_result import Result
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_spark.jobs.export import work
from chiplog_spark.refused import Refused
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.subject import subject
from e2e.clients.topics import LIMIT_S, create_topic
from e2e.kafka.process import BrokerProcess
from e2e.spark.topic_rows import Row, delete_before, grow, stored
from tests.transactions_kit import Transactional, interleaved, open_transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FIRST_MS = 1_700_000_000_000
DAY_MS = 86_400_000
FOR_EVER = {"retention.ms": "-1"}  # the records are of another year
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = ["partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "date"]


def produce(broker: BrokerProcess, topic: str, partition: int, numbers: range) -> None:
    """Records over three days; some without key, value, or headers."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, **QUIET})
    for n in numbers:
        producer.produce(
            topic,
            None if n % 11 == 3 else f"value {n}".encode(),
            None if n % 7 == 2 else f"key-{n % 13}".encode(),
            partition=partition,
            timestamp=FIRST_MS + n % 3 * DAY_MS + n,
            headers=[("n", f"{n}".encode()), ("n", None)] if n % 5 == 0 else [],
        )
    assert producer.flush(LIMIT_S) == 0


def asked(broker: BrokerProcess, topic: str, target: Path | str, **job: object) -> Request:
    uri = target if isinstance(target, str) else target.as_uri()
    return Request(
        kind=JobKind.EXPORT,
        application="export",
        namespace="default",
        bootstrap=broker.bootstrap,
        result=ResultPlace(config_map="export-result"),
        job={"topics": [topic], "target": uri, **job},
    )


def exported(target: Path, topic: str) -> list[Row]:
    """What any reader of the folder sees, in order, with twice what is there twice."""
    directory = target / topic
    if not directory.exists():
        return []
    found = pyarrow.dataset.dataset(directory, format="parquet", partitioning="hive")
    table = found.to_table(columns=COLUMNS).to_pylist()
    for one in table:
        assert str(one["date"]) == f"{one['timestamp'].astimezone(UTC):%Y-%m-%d}"
    return sorted(
        Row(
            partition=one["partition"],
            offset=one["offset"],
            timestamp_ms=(one["timestamp"].astimezone(UTC) - EPOCH) // timedelta(milliseconds=1),
            timestamp_type=one["timestampType"],
            key=one["key"],
            value=one["value"],
            headers=tuple((each["key"], each["value"]) for each in one["headers"] or ()),
        )
        for one in sorted(table, key=lambda one: (one["partition"], one["offset"]))
    )


def summary(result: Result) -> Mapping[str, int]:
    (found,) = result.summary["topics"]
    return {name: found[name] for name in ("commits", "records", "lostTotal")}


def test_twice_with_growth_in_between(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "twice", 2, FOR_EVER)
    for partition in range(2):
        produce(broker, "twice", partition, range(500))
    request = asked(broker, "twice", tmp_path, recordsPerFile=150, filesPerCommit=5)
    first = work(spark, request)
    assert summary(first) == {"commits": 2, "records": 1_000, "lostTotal": 0}
    assert exported(tmp_path, "twice") == stored(broker.bootstrap, "twice", range(2))
    again = work(spark, request)
    assert summary(again) == {"commits": 0, "records": 0, "lostTotal": 0}
    grow(broker.bootstrap, "twice", 3)
    produce(broker, "twice", 0, range(500, 700))
    produce(broker, "twice", 2, range(100))
    grown = work(spark, request)
    assert summary(grown) == {"commits": 1, "records": 300, "lostTotal": 0}
    assert exported(tmp_path, "twice") == stored(broker.bootstrap, "twice", range(3))
    names = sorted(one.name for one in (tmp_path / "twice" / "date=2023-11-14").glob("*.parquet"))
    # Of the first commit's five files partition 0 has three, of 150 offsets each.
    assert names[0] == "part-twice-00000-00000000000000000000-00000000000000000149.parquet"
    by_spark = spark.read.parquet(str(tmp_path / "twice"))
    assert by_spark.count() == 1_300
    assert dict(by_spark.dtypes)["timestamp"] == "timestamp"
    assert {one.leaderEpoch for one in by_spark.select("leaderEpoch").distinct().collect()} == {0}


def test_what_retention_took_is_reported(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "taken", 1, FOR_EVER)
    produce(broker, "taken", 0, range(100))
    work(spark, asked(broker, "taken", tmp_path))
    kept = stored(broker.bootstrap, "taken", [0])
    produce(broker, "taken", 0, range(100, 200))
    delete_before(broker.bootstrap, "taken", 0, 130)
    with pytest.raises(Refused, match="offsets 100 to 129 of partition 0 were deleted") as refused:
        work(spark, asked(broker, "taken", tmp_path))
    assert refused.value.reason == "OffsetOutOfRange"
    done = work(spark, asked(broker, "taken", tmp_path, failOnDataLoss=False))
    assert summary(done) == {"commits": 1, "records": 70, "lostTotal": 1}
    assert done.summary["topics"][0]["lost"] == [
        {"partition": 0, "firstOffset": 100, "lastOffset": 129}
    ]
    assert exported(tmp_path, "taken") == kept + stored(broker.bootstrap, "taken", [0], first=130)


def test_transactions_are_exported_once_they_are_committed(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "exported-transactions"
    create_topic(broker.bootstrap, topic, 1)
    committed = interleaved(broker, topic, topic)
    later = Transactional(broker, f"{topic}-later")
    later.begin()
    later.write(topic, b"c12")
    request = asked(broker, topic, tmp_path, recordsPerFile=3)
    # Offsets 0 to 11; not the open transaction.
    assert summary(work(spark, request))["records"] == len(committed)
    assert [row.value for row in exported(tmp_path, topic)] == committed
    assert summary(work(spark, request)) == {"commits": 0, "records": 0, "lostTotal": 0}
    later.commit()
    with open_transaction(broker, f"{topic}-aborted", topic, b"a14"):
        assert summary(work(spark, request)) == {"commits": 1, "records": 1, "lostTotal": 0}
    # What is aborted makes a commit without records: the next run begins after it.
    assert summary(work(spark, request)) == {"commits": 1, "records": 0, "lostTotal": 0}
    assert summary(work(spark, request)) == {"commits": 0, "records": 0, "lostTotal": 0}
    assert exported(tmp_path, topic) == stored(broker.bootstrap, topic, [0])


def test_what_cannot_be_done_is_refused(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="absent") as refused:
        work(spark, asked(broker, "absent", tmp_path))
    assert refused.value.reason == "UnknownTopic"
    elsewhere = asked(broker, "absent", "nothing://bucket/exports")
    with pytest.raises(
        Refused, match=r"job.target: nothing://.*that the image supports"
    ) as refused:
        work(spark, elsewhere)
    assert refused.value.reason == "TargetUnusable"
    remedy = r"job.target: file:///proc/.*allow the job's user"
    with pytest.raises(Refused, match=remedy) as refused:
        work(spark, asked(broker, "absent", "file:///proc/exports"))
    assert refused.value.reason == "TargetUnusable"


def test_a_compacted_topic(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"log.cleaner.backoff.ms": "100"}
    with subject()(tmp_path / "broker", settings=settings) as broker:
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": str(2**20),
            "min.cleanable.dirty.ratio": "0.01",
        }
        create_topic(broker.bootstrap, "table", 1, config)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, **QUIET})
        for n in range(4_000):
            producer.produce("table", f"{n} ".encode() * 200, f"key-{n % 90}".encode())
            producer.poll(0)
        assert producer.flush(LIMIT_S) == 0
        until(lambda: is_clean(broker, "table"))
        left = stored(broker.bootstrap, "table", [0])
        assert len(left) < 3_000
        # Some of these ranges hold nothing any more.
        request = asked(broker, "table", tmp_path / "raw", recordsPerFile=80)
        assert summary(work(spark, request))["records"] == len(left)
        assert exported(tmp_path / "raw", "table") == left


def is_clean(broker: BrokerProcess, topic: str) -> bool:
    """Whether all but the newest segment is compacted."""
    newest = max(int(one.stem) for one in (broker.logs / f"{topic}-0").glob("*.log"))
    checkpoint = broker.logs / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().split("\n")[2:] if checkpoint.exists() else []
    return bool(newest) and f"{topic} 0 {newest}" in lines


def until(what: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not what():
        assert time.monotonic() < deadline_s, "it did not come within 120 s"
        time.sleep(0.1)
