"""The whole job on a broker by itself: its figures against counting with confluent-kafka."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from chiplog_core.manifest.writing import write
from chiplog_core.model.spark_result import Result
from chiplog_core.rebalance.job import RebalanceJob
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_spark.refused import Refused
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOT, EVEN = "rebalance-hot", "rebalance-even"
PARTITIONS = 4
MANY_KEYS = 1_500
"""More than a sketch holds."""


@dataclass
class Count:
    """Of one partition, record by record."""

    records: int = 0
    size_bytes: int = 0
    without_key: int = 0
    timestamps_ms: list[int] = field(default_factory=list)
    keys: "Counter[bytes]" = field(default_factory=Counter)


Counts = Mapping[tuple[str, int], Count]


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(6_000):
        # Two of three records have one key; the others have keys of their own.
        key = b"celebrity" if number % 3 else b"user-%d" % (number % (3 * MANY_KEYS))
        headers: Any = [("trace", b"%d" % number), ("none", None)] if number % 5 == 0 else None
        producer.produce(HOT, value=b"v" * (50 + number % 7), key=key, headers=headers)
        producer.produce(
            EVEN, value=None if number % 100 == 0 else b"w" * 40, key=b"key-%d" % (number % 400)
        )
        producer.poll(0)
    producer.produce(EVEN, value=b"keyless", partition=3)
    assert producer.flush(60) == 0


def counted(bootstrap: str) -> Counts:
    """All of both topics, by a consumer that knows nothing of Spark."""
    counts = {(topic, index): Count() for topic in (HOT, EVEN) for index in range(PARTITIONS)}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "count",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    places = [TopicPartition(topic, index, 0) for topic, index in counts]
    left = sum(consumer.get_watermark_offsets(one, timeout=30)[1] for one in places)
    consumer.assign(places)
    while left:
        messages = consumer.consume(min(left, 1_000), timeout=30)
        assert messages, f"{left} records are missing"
        for message in messages:
            assert message.error() is None
            add(counts[str(message.topic()), int(message.partition() or 0)], message)
            left -= 1
    consumer.close()
    return counts


def add(count: Count, message: Any) -> None:
    key, value = message.key(), message.value()
    count.records += 1
    count.size_bytes += len(key or b"") + len(value or b"")
    count.size_bytes += sum(len(name) + len(text or b"") for name, text in message.headers() or [])
    count.timestamps_ms.append(message.timestamp()[1])
    if key is None:
        count.without_key += 1
    else:
        count.keys[key] += 1


@pytest.fixture(scope="module")
def counts(broker: BrokerProcess) -> Counts:
    for topic in (HOT, EVEN):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap)
    return counted(broker.bootstrap)


def measure(spark: "SparkSession", broker: BrokerProcess, **job: Any) -> Result:
    from chiplog_spark.jobs.rebalance import work  # noqa: PLC0415 - needs Spark

    request = Request(
        kind=JobKind.REBALANCE,
        application="even-1",
        namespace="shop",
        bootstrap=broker.bootstrap,
        result=ResultPlace(config_map="even-1-result"),
        job=write(RebalanceJob(**{"topics": (HOT, EVEN), **job})),
    )
    return Result.from_json(work(spark, request).to_json(), application=request.application)


def broker_id(broker: BrokerProcess) -> int:
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30)
    (found,) = metadata.brokers
    return int(found)


def test_the_figures_are_those_of_an_independent_count(
    spark: "SparkSession", broker: BrokerProcess, counts: Counts
) -> None:
    one = broker_id(broker)

    summary = measure(spark, broker, brokers=(one,)).summary

    found = {(it["topic"], it["partition"]): it for it in summary["partitions"]}
    assert {
        place: (
            it["records"],
            it["bytes"],
            it["recordsWithoutKey"],
            it["firstTimestampMs"],
            it["lastTimestampMs"],
            it["exact"],
        )
        for place, it in found.items()
    } == {
        place: (
            count.records,
            count.size_bytes,
            count.without_key,
            min(count.timestamps_ms, default=None),
            max(count.timestamps_ms, default=None),
            True,
        )
        for place, count in counts.items()
    }
    all_bytes = sum(count.size_bytes for count in counts.values())
    all_records = sum(count.records for count in counts.values())
    assert summary["coverage"] == {
        "topics": 2,
        "partitions": 2 * PARTITIONS,
        "replicas": 2 * PARTITIONS,
        "records": all_records,
        "bytes": all_bytes,
    }
    (figures,) = summary["figures"]["before"]
    assert (figures["broker"], figures["leaders"]) == (one, 2 * PARTITIONS)
    assert figures["bytes"] == all_bytes
    window_s = (summary["sampling"]["windowEndMs"] - summary["sampling"]["windowStartMs"]) / 1000
    assert figures["bytesPerSecond"] == pytest.approx(all_bytes / window_s, abs=1)
    assert summary["leaderMoves"] == []
    assert summary["monitoredPartitionsPercentage"] == 100


def test_the_hot_key_is_named_within_the_bound_and_no_other(
    spark: "SparkSession", broker: BrokerProcess, counts: Counts
) -> None:
    summary = measure(spark, broker, brokers=(broker_id(broker),)).summary

    (hot,) = summary["hotKeys"]
    count = counts[HOT, hot["partition"]]
    assert (hot["topic"], hot["key"]) == (HOT, "celebrity")
    assert hot["records"] <= count.keys[b"celebrity"] == 4_000 <= hot["recordsAtMost"]
    bound = hot["recordsAtMost"] - hot["records"]
    assert len(count.keys) > summary["sampling"]["keysCounted"], "the sketch never had to forget"
    assert 0 < bound <= count.keys.total() / (summary["sampling"]["keysCounted"] + 1)
    assert hot["share"] <= 100 * 4_000 / count.records <= hot["shareAtMost"]
    print(f"\nhot key: {hot['records']} to {hot['recordsAtMost']} records, in truth 4000")  # noqa: T201
    skew = {one["topic"]: one for one in summary["skew"]}
    sizes = [counts[HOT, index].size_bytes for index in range(PARTITIONS)]
    assert skew[HOT]["bytes"] == round(max(sizes) * PARTITIONS / sum(sizes), 3)
    assert {one["topic"]: one["reasons"] for one in summary["advice"]} == {HOT: ["HotKey"]}


def test_a_sample_says_that_it_is_one(
    spark: "SparkSession", broker: BrokerProcess, counts: Counts
) -> None:
    result = measure(spark, broker, topics=(HOT,), brokers=(1,), sample_records=200)

    summary = result.summary
    sampled = [count for place, count in counts.items() if place[0] == HOT and count.records > 200]
    assert summary["sampling"]["sampledPartitions"] == len(sampled) == PARTITIONS
    assert summary["coverage"]["records"] == 200 * PARTITIONS
    for one in summary["partitions"]:
        count = counts[HOT, one["partition"]]
        assert not one["exact"]
        assert one["records"] == count.records  # by offsets: nothing is compacted away here
        assert one["bytes"] == pytest.approx(count.size_bytes, rel=0.2)


def test_a_topic_that_is_gone_is_left_out_and_reported(
    spark: "SparkSession", broker: BrokerProcess, counts: Counts
) -> None:
    summary = measure(spark, broker, topics=(EVEN, "rebalance-gone"), brokers=(1,)).summary

    assert summary["sampling"]["goneTopics"] == ["rebalance-gone"]
    assert summary["coverage"]["records"] == sum(
        count.records for place, count in counts.items() if place[0] == EVEN
    )


@pytest.mark.parametrize(
    ("job", "reason", "said"),
    [
        ({"mode": "remove-disks"}, "InvalidSpec", "mode: remove-disks is not built yet"),
        (
            {"excluded_topics": "("},
            "InvalidSpec",
            "excludedTopics: '(' is not a regular expression",
        ),
        ({"brokers": ()}, "InvalidSpec", "no broker is ready"),
    ],
)
def test_what_cannot_be_proposed_is_refused(
    spark: "SparkSession",
    broker: BrokerProcess,
    counts: Counts,
    job: dict[str, Any],
    reason: str,
    said: str,
) -> None:
    with pytest.raises(Refused) as refused:
        measure(spark, broker, **{"brokers": (1,), "topics": (EVEN,), **job})

    assert refused.value.reason == reason
    assert str(refused.value).startswith(said)
    assert counts


def test_measuring_that_takes_too_long_is_ended(
    spark: "SparkSession", broker: BrokerProcess, counts: Counts
) -> None:
    with pytest.raises(Refused) as refused:
        measure(spark, broker, brokers=(1,), bytes_per_second=1, time_limit_ms=2_000)

    assert refused.value.reason == "TimeLimitExceeded"
    assert counts
