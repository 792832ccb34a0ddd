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
from chiplog_spark.wire.facts import EARLIEST, LATEST, Isolation, TopicFacts
from chiplog_spark.wire.verdicts import out_of_range

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans each trigger on the driver; a trigger ends at the present last stable offsets, or with
    `READ_UNCOMMITTED` at the high watermarks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._final_ends: dict[int, int] | None = None
        """The end offsets of a query with the trigger availableNow; None for other triggers."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Where a query without a checkpoint begins, as JSON. Raises `WireError`, `BadOption`."""
        with Client(self._options.access) as client:
            topic, held = self._partition_offsets(client)
        starts = places(STARTING, self._options.starting, held)
        offsets = {index: resolved(starts[index], held[index]) for index in held}
        for index, offset in offsets.items():
            bounds = held[index]
            if not bounds.start <= offset <= bounds.end:
                existing = f": offsets {bounds.start} to {bounds.end} can be read"
                raise out_of_range(offset, topic.name, index, existing)
        return self._to_json(offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the trigger that begins at `start` ends, within Spark's limit."""
        starts = self._from_json(start)
        with Client(self._options.access) as client:
            topic, held = self._partition_offsets(client)
            if self._final_ends is not None:
                # The trigger availableNow reads nothing that was written after the query began.
                held = {
                    index: Held(
                        min(bounds.start, self._final_ends[index]),
                        min(bounds.end, self._final_ends[index]),
                    )
                    for index, bounds in held.items()
                    if index in self._final_ends
                }
            held |= self._waiting(client, topic, starts, held)
        max_records = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._to_json(ends_of_trigger(self._options.topic, starts, held, max_records))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of one trigger: option `maxOffsetsPerTrigger`."""
        max_offsets = self._options.max_per_trigger
        return ReadAllAvailable() if max_offsets is None else ReadMaxRows(max_offsets)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The ends of what can be read, which Spark shows in the progress of the query."""
        with Client(self._options.access) as client:
            _, held = self._partition_offsets(client)
        return self._to_json({index: bounds.end for index, bounds in held.items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets of a query that reads what is available when it begins."""
        with Client(self._options.access) as client:
            _, held = self._partition_offsets(client)
        self._final_ends = {index: bounds.end for index, bounds in held.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The splits of one trigger, between the offsets of two checkpoints."""
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
        """The topic, and the present offsets of the partitions that are read."""
        topic = client.topic(self._options.topic)
        partitions = chosen(topic, self._options.partitions, self._options.replica)
        return topic, held_now(client, topic, partitions, self._options.isolation)

    def _waiting(
        self,
        client: Client,
        topic: TopicFacts,
        starts: Mapping[int, int],
        held: Mapping[int, Held],
    ) -> dict[int, Held]:
        """The partitions in which the query is above the last stable offset, and not above the high
        watermark: it has read uncommitted records before. They end there until the transactions
        below it have ended."""
        if self._options.isolation is Isolation.READ_UNCOMMITTED:
            return {}
        above = [index for index in held if starts.get(index, 0) > held[index].end]
        ends = client.offsets(topic, dict.fromkeys(above, LATEST))
        return {
            index: Held(held[index].start, starts[index])
            for index in above
            if starts[index] <= ends[index]
        }

    def _to_json(self, offsets: Mapping[int, int]) -> dict[str, Any]:
        """Offsets by partition, as a checkpoint contains them."""
        return {self._options.topic: {str(index): offsets[index] for index in sorted(offsets)}}

    def _from_json(self, written: Mapping[str, Any]) -> dict[int, int]:
        """Offsets by partition, from a checkpoint's JSON `{topic: {partition: offset}}`."""
        of_topic = written.get(self._options.topic, {})
        return {int(index): int(offset) for index, offset in of_topic.items()}
