"""The same verification as a job of Spark: two stages, and an exchange between them."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from chiplog_core.model.spark_result import Result
from chiplog_core.model.spark_run import RunProgress
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_spark.jobs.verify import work
from chiplog_spark.refused import Refused
from chiplog_spark.verify.composition import InSpark
from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.verify.job import Job, verify
from chiplog_spark.wire.access import Access, addresses_of
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic

pytestmark = pytest.mark.spark

KEYS = [f"customer-{number:03}".encode() for number in range(300)]


def request(bootstrap: str, *topics: str) -> Request:
    return Request(
        kind=JobKind.VERIFICATION,
        application="nightly",
        namespace="demo",
        bootstrap=bootstrap,
        result=ResultPlace(config_map="nightly-result"),
        job={"topics": list(topics), "recordsPerSplit": 150},
    )


def test_spark_finds_what_is_found_without_it(
    spark: SparkSession, broker: StandaloneBroker, verified: Callable[..., Result]
) -> None:
    create_topic(broker.bootstrap, "orders", 3)
    records = [Record(b"%06d" % at, KEYS[at % len(KEYS)]) for at in range(1_200)]
    Librdkafka().produce(broker.bootstrap, "orders", records)
    result = work(spark, request(broker.bootstrap, "orders"))
    assert result.violations == ()
    assert result.summary["coverage"]["records"] == 1_200

    stranger = next(key for key in KEYS if all(of(key, 3) != 2 for of in PARTITIONERS.values()))
    Librdkafka().produce(broker.bootstrap, "orders", [Record(b"", stranger)], partition=2)
    result = work(spark, request(broker.bootstrap, "orders"))
    (found,) = result.violations
    assert (found.check.value, found.partition, found.replica) == ("KeyPlacement", 2, 1)
    alone = verified(broker.bootstrap, "orders", records_per_split=150)
    assert alone.violations == result.violations
    assert alone.summary["coverage"] == result.summary["coverage"]
    assert alone.summary["partitioners"] == result.summary["partitioners"]
    result.to_json()

    told: list[RunProgress] = []
    access = Access(addresses_of(broker.bootstrap))
    verify(InSpark(spark, told.append), access, Job(topics=("orders",)))
    assert (told[-1].percent, told[-1].partitions, told[-1].partitions_total) == (100, 3, 3)
    assert told[-1].bytes == told[-1].bytes_total == result.summary["coverage"]["bytes"]

    with pytest.raises(Refused) as refused:
        work(spark, request(broker.bootstrap, "no-such-topic"))
    assert refused.value.reason == "UnknownTopic"
