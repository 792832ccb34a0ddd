"""Runs the checks with Spark: two stages with one exchange of rows between them.

Each task of the first stage reads a split of a replica and checks its batches; it returns only the
batches and records that must be compared. The exchange brings the rows of a partition (or of one
key of a compacted topic) together, sorted, so the second stage processes them in order. If they do
not fit into memory, Spark's sort uses the disk.

Rows are Python tuples, not Arrow: `mapInArrow` needs pandas, which the image would contain only for
this.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from zlib import crc32

from pyspark.sql import SparkSession

from chiplog_spark.progress import (
    Report,
    counts_of_split,
    progress,
    reporting_progress,
    to_log_only,
)
from chiplog_spark.source.splits import Split
from chiplog_spark.sums import Sums
from chiplog_spark.verify.judge import Judge
from chiplog_spark.verify.merging import merged
from chiplog_spark.verify.reading import Task, rows_of
from chiplog_spark.verify.reports import Found, Read
from chiplog_spark.verify.rows import ORDER, PLACE, Kind, Row

Key: TypeAlias = tuple[str, int, bytes, int, int, int]
"""The first columns of a row, by which rows are sorted."""

assert Row._fields[: len(ORDER)] == ORDER
assert ORDER[: len(PLACE)] == PLACE


class InSpark:
    """Runs the two stages as one job of a session."""

    def __init__(self, session: SparkSession, report: Report = to_log_only) -> None:
        """`report` gets the progress."""
        self._context = session.sparkContext
        self._report = report

    @property
    def parallel_tasks(self) -> int:
        return self._context.defaultParallelism

    def run(self, task: Task, splits: Sequence[Split], judge: Judge) -> None:
        """Read and check at least one split, and add the findings to `judge`."""

        done = self._context.accumulator(Counter(), Sums())

        def read(own_splits: Iterable[Split]) -> Iterator[tuple[Key, Row]]:
            """The first stage, in a task: the rows of its splits, with their sort keys."""
            for split in own_splits:
                read_bytes = 0
                for row in rows_of(task, iter([split])):
                    if row.kind == Kind.READ:
                        read_bytes = Read.from_json(row.text).bytes
                    yield row[:6], row  # the columns of `ORDER` are the key
                done.add(counts_of_split(split, read_bytes))

        def merge(pairs: Iterable[tuple[Key, Row]]) -> Iterator[tuple[bool, str]]:
            """The second stage, in a task: reports as JSON, each with whether it is a `Read`."""
            rows = (Row(*row) for _, row in pairs)
            for reported in merged(rows, task.facts, task.wanted.limit):
                yield isinstance(reported, Read), reported.to_json()

        found = (
            self._context.parallelize(splits, len(splits))
            .mapPartitions(read)
            .repartitionAndSortWithinPartitions(self.parallel_tasks, place_of)
            .mapPartitions(merge)
        )
        with reporting_progress(lambda: progress(splits, done.value), self._report):
            collected = found.collect()
        for is_read, text in collected:
            if is_read:
                judge.add_read(Read.from_json(text))
            else:
                judge.add_found(Found.from_json(text))


def place_of(key: Key) -> int:
    """The number by which rows are distributed to tasks: equal for all rows with the same `PLACE`.

    Python's `hash` would differ between processes.
    """
    return crc32(repr(key[: len(PLACE)]).encode())
