"""The streaming read: offsets in checkpoints are written as Spark's Kafka source writes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from chiplog_spark.source.options import STARTING, Options
from chiplog_spark.source.planning import held_now
from chiplog_spark.source.ranges import (
    Held,
    chosen,
    ends_of_trigger,
    places,
    ranges_of_stream,
    resolved,
)
from chiplog_spark.source.reader import SplitPartition, rows_of_partition
from chiplog_spark.source.splits import splits_of
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import EARLIEST, TopicFacts
from chiplog_spark.wire.verdicts import out_of_range

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans each trigger on the driver; a trigger ends at the present high watermarks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._last: dict[int, int] | None = None
        """The end offsets of the query with the trigger availableNow."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        with Client(self._options.access) as client:
            topic, held = self._partition_offsets(client)
        starts = places(STARTING, self._options.starting, held)
        found = {index: resolved(starts[index], held[index]) for index in held}
        for index, offset in found.items():
            bounds = held[index]
            if not bounds.start <= offset <= bounds.end:
                held_here = f", it holds {bounds.start} to {bounds.end}"
                raise out_of_range(offset, topic.name, index, held_here)
        return self._to_json(found)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with Client(self._options.access) as client:
            _, held = self._partition_offsets(client)
        if self._last is not None:
            held = {
                index: Held(
                    min(bounds.start, self._last[index]), min(bounds.end, self._last[index])
                )
                for index, bounds in held.items()
                if index in self._last
            }
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        starts = self._from_json(start)
        return self._to_json(ends_of_trigger(self._options.topic, starts, held, most))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        with Client(self._options.access) as client:
            _, held = self._partition_offsets(client)
        return self._to_json({index: bounds.end for index, bounds in held.items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with Client(self._options.access) as client:
            _, held = self._partition_offsets(client)
        self._last = {index: bounds.end for index, bounds in held.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        starts, ends = self._from_json(start), self._from_json(end)
        with Client(options.access) as client:
            topic = client.topic(options.topic)
            log_starts = client.offsets(topic, dict.fromkeys(ends, EARLIEST))
        ranges = ranges_of_stream(
            options.topic,
            starts,
            ends,
            log_starts,
            fails_on_data_loss=options.fails_on_data_loss,
        )
        splits = splits_of(topic, options.replica, ranges, options.records_per_split)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return rows_of_partition(self._options, partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the checkpoint is the only state, as in Spark's Kafka source."""

    def _partition_offsets(self, client: Client) -> tuple[TopicFacts, dict[int, Held]]:
        topic = client.topic(self._options.topic)
        partitions = chosen(topic, self._options.partitions, self._options.replica)
        return topic, held_now(client, topic, partitions)

    def _to_json(self, offsets: Mapping[int, int]) -> dict[str, Any]:
        return {self._options.topic: {str(index): offsets[index] for index in sorted(offsets)}}

    def _from_json(self, written: Mapping[str, Any]) -> dict[int, int]:
        of_topic = written.get(self._options.topic, {})
        return {int(index): int(offset) for index, offset in of_topic.items()}
