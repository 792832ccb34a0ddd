"""The batch read: its end offsets are fixed when it is planned."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from chiplog_spark.source.options import ENDING, STARTING, Options
from chiplog_spark.source.planning import held_now
from chiplog_spark.source.ranges import chosen, places, ranges_between
from chiplog_spark.source.splits import Split, splits_of
from chiplog_spark.wire.client import Client

if TYPE_CHECKING:
    import pyarrow as pa


class SplitPartition(InputPartition):
    """A split as Spark sends it to an executor."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


def rows_of_partition(
    options: Options, partition: InputPartition, schema: StructType
) -> "Iterator[pa.RecordBatch]":
    """The rows of one of Spark's partitions, which is one split.

    If there are no splits, Spark makes one partition of another type; it has no rows.
    """
    # Only executors need Arrow.
    from chiplog_spark.source.arrow import rows_of  # noqa: PLC0415

    if isinstance(partition, SplitPartition):
        yield from rows_of(options, partition.value, schema)


class BatchReader(DataSourceReader):
    """Plans on the driver and reads in executors, so it is pickled."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The splits of the whole read. Raises `WireError` and `BadOption`."""
        return [SplitPartition(split) for split in planned(self._options)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return rows_of_partition(self._options, partition, self._schema)


def planned(options: Options) -> list[Split]:
    """Request the offsets of the topic, and plan the splits of a batch read.

    Raises `WireError` and `BadOption`.
    """
    with Client(options.access) as client:
        topic = client.topic(options.topic)
        partitions = chosen(topic, options.partitions, options.replica)
        starts = places(STARTING, options.starting, partitions)
        ends = places(ENDING, options.ending, partitions)
        held = held_now(client, topic, partitions, options.isolation)
    ranges = ranges_between(options.topic, starts, ends, held)
    return splits_of(topic, options.replica, ranges, options.records_per_split)
