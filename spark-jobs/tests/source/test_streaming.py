"""A stream reads each record once, also over a restart of the query."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.process import BrokerProcess
from tests.spark_kit import produced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(
    spark: "SparkSession", broker: BrokerProcess, directory: Path, topic: str, **more: str
) -> int:
    """Read all that is there by now, add it to what was read before; returns the triggers."""
    stream = spark.readStream.format("chiplog").option("bootstrap.servers", broker.bootstrap)
    rows = stream.option("topic", topic).options(startingOffsets="earliest", **more).load()
    query = (
        rows.select("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .option("path", str(directory / "rows"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    return len([one for one in query.recentProgress if one.numInputRows])


def read_so_far(spark: "SparkSession", directory: Path) -> list[tuple[int, int, bytes]]:
    rows = spark.read.parquet(str(directory / "rows")).collect()
    return sorted((row.partition, row.offset, bytes(row.value)) for row in rows)


@pytest.mark.timeout(600)
def test_a_query_continues_where_its_checkpoint_ends(
    spark: "SparkSession", broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = "stream"
    create_topic(broker.bootstrap, topic, 2)
    wanted = []

    def more(count: int, *partitions: int) -> None:
        for partition in partitions:
            (begin,) = end_offsets(broker.bootstrap, topic, [partition])
            some = [(partition, n, b"%d/%d" % (partition, n)) for n in range(begin, begin + count)]
            produced(broker, topic, [{"partition": p, "value": value} for p, _, value in some])
            wanted.extend(some)

    more(10, 0, 1)
    assert run(spark, broker, tmp_path, topic) == 1
    assert read_so_far(spark, tmp_path) == sorted(wanted)
    # As Spark's Kafka source writes it, behind two lines of Spark's own.
    written = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()
    assert json.loads(written[2]) == {topic: {"0": 10, "1": 10}}

    # With a partition that was not there before, and a limit.
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    more(5, 0, 1, 2)
    assert run(spark, broker, tmp_path, topic, maxOffsetsPerTrigger="8") == 2
    assert read_so_far(spark, tmp_path) == sorted(wanted)
    assert run(spark, broker, tmp_path, topic) == 0
