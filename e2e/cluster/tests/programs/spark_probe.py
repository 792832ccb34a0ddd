"""A job that touches what our jobs are made of; it runs in the image, on what is left of Spark.

spark_probe.py REQUEST RESULT: as any job of ours, and the result counts what it did.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.functions import col, count, sha2

from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.spark.requests import JobKind, Request
from chiplog_spark.jobs import entry

ROWS = 1_000
SPLITS = 4
SCHEMA = "value binary, part int, number long"


class Split(InputPartition):
    """Some of the rows."""


def rows(split: InputPartition) -> Iterator[pa.RecordBatch]:
    """Arrow batches from a Python worker, with the codecs that jobs read brokers by."""
    from chiplog_wire import scram  # noqa: F401, PLC0415
    from chiplog_wire.protocol import messages  # noqa: F401, PLC0415
    from chiplog_wire.records import batch, compression  # noqa: F401, PLC0415

    numbers = pa.array(range(ROWS), pa.int64())
    values = pa.array([str(number).encode() for number in range(ROWS)], pa.binary())
    parts = pa.array([split.value] * ROWS, pa.int32())
    yield pa.record_batch([values, parts, numbers], names=["value", "part", "number"])


class Batch(DataSourceReader):
    """A planned read."""

    def partitions(self) -> list[InputPartition]:
        return [Split(number) for number in range(SPLITS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows(partition)


class Stream(DataSourceStreamReader):
    """One micro-batch, then no more."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Split(0)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        pass


class Source(DataSource):
    """Batch and stream."""

    @classmethod
    def name(cls) -> str:
        return "probe"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> Batch:
        return Batch()

    def streamReader(self, schema: object) -> Stream:  # noqa: N802 - Spark's name
        return Stream()


def work(session: SparkSession, request: Request) -> Result:
    directory = Path(str(request.job["folder"]))
    session.dataSource.register(Source)
    read = session.read.format("probe").load()
    read.write.partitionBy("part").parquet(str(directory / "batch"))
    back = session.read.parquet(str(directory / "batch"))
    keys = back.groupBy(sha2(col("value"), 256)).agg(count("*").alias("n")).where("n = 4").count()
    written = session.readStream.format("probe").load().writeStream.format("parquet")
    query = (
        written.option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "stream"))
    )
    query.awaitTermination(120)
    figures = {
        "user": os.getuid(),
        "batch": back.count(),
        "keys": keys,
        "stream": session.read.parquet(str(directory / "stream")).count(),
        "python": list(sys.version_info[:2]),
        "spark": session.version,
    }
    return Result(application="", state=ResultState.SUCCEEDED, reason="Probed", summary=figures)


if __name__ == "__main__":
    entry.main(JobKind.VERIFICATION, work)
