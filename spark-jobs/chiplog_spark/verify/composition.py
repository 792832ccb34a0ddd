"""The checks in Spark: two stages with one exchange of rows between them.

Tasks of the first stage read a split of a replica each and look at its batches; of the records
only what has to be compared leaves them. The exchange brings together what belongs to one
partition (or one key of a compacted topic), sorted, so the second stage looks at it as it comes.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from chiplog_spark.source.splits import Split
from chiplog_spark.verify.judge import Judge
from chiplog_spark.verify.merging import merged
from chiplog_spark.verify.reading import Task, rows_of
from chiplog_spark.verify.reports import Found, Read
from chiplog_spark.verify.rows import DDL, ORDER, PLACE, Row

CHUNK_ROWS: Final = 4_096
TOLD_DDL: Final = "is_read boolean, text string"

_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("kind", pa.int32()),
        ("offset", pa.int64()),
        ("replica", pa.int32()),
        ("last_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("stored_crc", pa.int64()),
        ("computed_crc", pa.int64()),
        ("size_bytes", pa.int32()),
        ("record_count", pa.int32()),
        ("attributes", pa.int32()),
        ("max_timestamp_ms", pa.int64()),
        ("digest", pa.binary()),
        ("text", pa.string()),
    ]
)
_TOLD: Final = pa.schema([("is_read", pa.bool_()), ("text", pa.string())])

T = TypeVar("T")
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class InSpark:
    """Runs the two stages as one job of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @property
    def tasks_at_once(self) -> int:
        return self._session.sparkContext.defaultParallelism

    def run(self, task: Task, splits: Sequence[Split], judge: Judge) -> None:
        """Read and check some splits, at least one; what comes of it is told to `judge`."""
        numbers = self._session.range(0, len(splits), 1, len(splits))
        rows = numbers.mapInArrow(_reading(task, splits), DDL)
        for line in _checked(rows, task).toLocalIterator():
            if line.is_read:
                judge.add_read(Read.from_json(line.text))
            else:
                judge.add_found(Found.from_json(line.text))


def _checked(rows: DataFrame, task: Task) -> DataFrame:
    together = rows.repartition(*PLACE).sortWithinPartitions(*ORDER)
    return together.mapInArrow(_merging(task), TOLD_DDL)


def _reading(task: Task, splits: Sequence[Split]) -> Step:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = (splits[number] for one in numbers for number in one.column(0).to_pylist())
        for rows in _chunks(rows_of(task, wanted)):
            columns = zip(*rows, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)

    return read


def _merging(task: Task) -> Step:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (
            Row(*values)
            for one in batches
            for values in zip(*(column.to_pylist() for column in one.columns), strict=True)
        )
        for told in _chunks(merged(rows, task.facts, task.wanted.limit)):
            flags = [isinstance(one, Read) for one in told]
            texts = [one.to_json() for one in told]
            arrays = [pa.array(flags, pa.bool_()), pa.array(texts, pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, schema=_TOLD)

    return merge


def _chunks(items: Iterator[T]) -> Iterator[list[T]]:
    while chunk := list(islice(items, CHUNK_ROWS)):
        yield chunk
