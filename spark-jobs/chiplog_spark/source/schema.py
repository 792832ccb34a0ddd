"""The columns as Spark types. Those that Spark's Kafka source has, have the same types."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from chiplog_spark.source.options import Mode

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
RECORDS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("leaderEpoch", IntegerType()),
        StructField("batchBaseOffset", LongType()),
        StructField("batchCrc", LongType()),
    ]
)
_BATCHES: Final = (
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("replica", IntegerType()),
    StructField("baseOffset", LongType()),
    StructField("lastOffset", LongType()),
    StructField("leaderEpoch", IntegerType()),
    StructField("storedCrc", LongType()),
    StructField("computedCrc", LongType()),
    StructField("sizeBytes", IntegerType()),
    StructField("recordsCount", IntegerType()),
    StructField("attributes", IntegerType()),
    StructField("baseTimestamp", LongType()),
    StructField("maxTimestamp", LongType()),
    StructField("producerId", LongType()),
    StructField("producerEpoch", IntegerType()),
    StructField("baseSequence", IntegerType()),
    StructField("digest", BinaryType()),
)
_PAYLOAD: Final = StructField("payload", BinaryType())
_ERROR: Final = StructField("error", StringType())


def schema_for(mode: Mode, *, with_payload: bool) -> StructType:
    """The schema of a read; `payload` is included only on request."""
    if mode is Mode.RECORDS:
        return RECORDS
    return StructType([*_BATCHES, *([_PAYLOAD] if with_payload else []), _ERROR])
