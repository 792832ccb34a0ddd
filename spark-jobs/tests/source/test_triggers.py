"""The triggers of a stream, one by one, without a JVM."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from chiplog_spark.source.register import ChiplogSource
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from tests.spark_kit import produced

pytestmark = pytest.mark.spark


def test_triggers_follow_each_other_without_gap_or_overlap(broker: BrokerProcess) -> None:
    topic = "triggers"
    create_topic(broker.bootstrap, topic, 2)
    said = {"bootstrap.servers": broker.bootstrap, "topic": topic, "startingOffsets": "earliest"}
    source = ChiplogSource(said | {"maxOffsetsPerTrigger": "4"})
    reader = source.streamReader(source.schema())
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    at = reader.initialOffset()
    assert at == {topic: {"0": 0, "1": 0}}
    produced(broker, topic, [{"partition": n % 2, "value": b"%d" % n} for n in range(10)])
    found: list[Any] = []
    ends = []
    for limit in (ReadMaxRows(4), ReadMaxRows(4), ReadAllAvailable(), ReadAllAvailable()):
        end = reader.latestOffset(at, limit)
        for split in reader.partitions(at, end):
            for one in list[Any](reader.read(split)):
                found += one.column("value").to_pylist()
        ends.append(end[topic])
        at = end
    assert ends == [{"0": 2, "1": 2}, {"0": 4, "1": 4}, {"0": 5, "1": 5}, {"0": 5, "1": 5}]
    assert sorted(found) == [b"%d" % n for n in range(10)]
    assert reader.reportLatestOffset() == at
