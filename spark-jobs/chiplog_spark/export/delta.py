"""A Delta table in place of a folder of Parquet files.

A commit's files are appended in one transaction of the table, which remembers the number of the
last commit (Delta's application transactions): one that is appended a second time changes nothing.
https://docs.delta.io/delta-streaming/#idempotent-table-writes-in-foreachbatch
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from chiplog_spark.export.commits import Commit
from chiplog_spark.export.places import DATE_COLUMN
from chiplog_spark.export.writing import COLUMNS

CONF: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session must begin with."""


class DeltaTable:
    """`Table` by a session that began with `CONF`, and to which Delta's jars are known."""

    def __init__(self, session: SparkSession, compression: str) -> None:
        self._session = session
        session.conf.set("spark.sql.parquet.compression.codec", compression)

    def append(self, directory: str, commit: Commit, staging: str) -> None:
        (
            self._session.read.parquet(staging)
            .select(*COLUMNS, f.col(DATE_COLUMN).cast("date").alias(DATE_COLUMN))
            .write.format("delta")
            .mode("append")
            .partitionBy(DATE_COLUMN)
            .option("txnAppId", application_of(commit))
            .option("txnVersion", commit.number)
            .save(directory)
        )


def application_of(commit: Commit) -> str:
    """Whose commits are counted in the table."""
    return f"chiplog-export/{commit.topic}/{commit.topic_id}"
