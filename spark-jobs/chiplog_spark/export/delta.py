"""A Delta table instead of a directory of Parquet files.

The files of a commit are appended in one transaction of the table. It remembers the number of the
last commit (Delta's application transactions), so a repeated append changes nothing.
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
"""The Spark configuration that a session must have."""


class DeltaTable:
    """Implements `Table` with a session that was started with `CONF` and has Delta's jars."""

    def __init__(self, session: SparkSession, compression: str) -> None:
        self._session = session
        session.conf.set("spark.sql.parquet.compression.codec", compression)

    def append(self, directory: str, commit: Commit, staging: str) -> None:
        """Append the Parquet files in `staging`; Delta ignores a commit that it has already.

        It recognizes commits by `txnAppId` and `txnVersion`.
        """
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
    """The id under which a Delta table stores the number of an export's last commit.

    With the topic's id, since the commits of a topic that is created again begin at 1.
    """
    return f"chiplog-export/{commit.topic}/{commit.topic_id}"
