"""What Spark reads is what clients produced."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from tests.spark_kit import frame, produced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rows_for(codec: str) -> Iterator[dict[str, Any]]:
    """Keys, values and headers of all kinds: none, empty, long, not text."""
    values = (None, b"", b"v", codec.encode() * 500, bytes(range(256)))
    for number in range(100):
        yield {
            "partition": number % 2,
            "key": (None, b"", b"key-%d" % number)[number % 3],
            "value": values[number % 5],
            "timestamp": 1_700_000_000_000 + number,
            "headers": [("trace", b"%d" % number), ("none", None), ("trace", b"")]
            if number % 4 == 0
            else None,
        }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_what_was_produced(
    spark: "SparkSession", broker: BrokerProcess, codec: str
) -> None:
    topic = f"codec-{codec}"
    create_topic(broker.bootstrap, topic, 2)
    rows = list(rows_for(codec))
    produced(broker, topic, rows, **{"compression.type": codec})
    found = frame(spark, broker, topic, recordsPerSplit="20").orderBy("timestamp").collect()
    assert len(found) == len(rows)
    for row, wanted in zip(found, rows, strict=True):
        assert row.topic == topic
        assert row.partition == wanted["partition"]
        assert row.offset == (wanted["timestamp"] - 1_700_000_000_000) // 2
        assert row.key == wanted["key"]
        assert row.value == wanted["value"]
        assert row.timestamp.timestamp() * 1000 == pytest.approx(wanted["timestamp"], abs=0.01)
        assert row.timestampType == 0
        headers = None if row.headers is None else [tuple(one) for one in row.headers]
        assert headers == wanted["headers"]
        assert row.leaderEpoch == 0
        assert row.batchBaseOffset <= row.offset
        assert 0 <= row.batchCrc < 2**32


def test_bad_input_is_reported_in_sparks_own_error(
    spark: "SparkSession", broker: BrokerProcess
) -> None:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as failed:
        frame(spark, broker, "no-such").collect()
    assert "UnknownTopic: no-such: no such topic" in str(failed.value)
