"""Writes one step with Spark: reads the data source `chiplog`, and writes Parquet to a staging
directory."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as f

from chiplog_spark.export.commits import OffsetRange
from chiplog_spark.export.places import DATE_COLUMN, FILE_COLUMN
from chiplog_spark.export.plan import Step
from chiplog_spark.export.runs import Topic
from chiplog_spark.source.register import FORMAT, register

COLUMNS: Final = (
    *("key", "value", "headers", "timestamp", "timestampType"),
    *("partition", "offset", "leaderEpoch"),
)
DAY: Final = "date_from_unix_date(CAST(floor(unix_millis(timestamp) / 86400000) AS INT))"
"""The record's day in UTC, whatever time zone the session has."""


@dataclass(frozen=True, slots=True)
class SparkWriter:
    """Implements `Writer` with a session in which the data source is registered."""

    session: SparkSession
    source: Mapping[str, str]
    """Options of the data source that are the same for all steps."""

    compression: str

    def __call__(self, topic: Topic, step: Step, staging: str) -> int:
        """Write the records of a step to the directory `staging`; returns their number."""
        reader = self.session.read.format(FORMAT).options(**options(topic.name, step))
        counted = Observation("step")
        (
            reader.options(**self.source)
            .load()
            .observe(counted, f.count(f.lit(1)).alias("records"))
            .select(
                *COLUMNS,
                f.expr(file_expression(step.files)).alias(FILE_COLUMN),
                f.expr(DAY).alias(DATE_COLUMN),
            )
            # One file is open at a time, and holds its records in the order of their offsets.
            .sortWithinPartitions(FILE_COLUMN, DATE_COLUMN, "offset")
            .write.partitionBy(FILE_COLUMN, DATE_COLUMN)
            .mode("errorifexists")
            .option("compression", self.compression)
            .parquet(staging)
        )
        return int(counted.get["records"])


def options(topic: str, step: Step) -> dict[str, str]:
    """The options of the data source: exactly the ranges of this step, one split per file."""
    return {
        "topic": topic,
        "partitions": ",".join(str(range_.partition) for range_ in step.ranges),
        "startingOffsets": offsets(
            topic, {range_.partition: range_.first for range_ in step.ranges}
        ),
        "endingOffsets": offsets(topic, {range_.partition: range_.end for range_ in step.ranges}),
        "recordsPerSplit": str(step.records_per_file),
    }


def offsets(topic: str, by_partition: Mapping[int, int]) -> str:
    """The offsets of partitions in the JSON form of the data source's options."""
    return json.dumps({topic: {str(number): offset for number, offset in by_partition.items()}})


def file_expression(files: Iterable[OffsetRange]) -> str:
    """A SQL expression for the number of a record's file in the step; null for other records."""
    cases = (
        f"WHEN partition = {file.partition} AND offset >= {file.first} AND offset < {file.end}"
        f" THEN {number}"
        for number, file in enumerate(files)
    )
    return f"CASE {' '.join(cases)} END"


def prepare(session: SparkSession) -> None:
    """Register the data source with the job's session, and set the types of Parquet's columns."""
    try:
        register(session)
    except AnalysisException as error:
        if (
            error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS"
        ):  # a session that was reused has it already
            raise
    # UTC in microseconds, not INT96, for which readers other than Spark warn.
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
