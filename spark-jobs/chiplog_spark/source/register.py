"""`chiplog` as a format that a Spark session can load."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from chiplog_spark.source.options import BadOption, mode_of, parsed, with_payload
from chiplog_spark.source.reader import BatchReader
from chiplog_spark.source.schema import schema_for
from chiplog_spark.source.stream import StreamReader

FORMAT: Final = "chiplog"


class ChiplogSource(DataSource):
    """Reads a topic of a Chiplog or Apache Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the rows, which depend on the options. Raises `BadOption`."""
        return schema_for(mode_of(self.options), with_payload=with_payload(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for `spark.read`. Raises `BadOption`."""
        self._check(schema)
        return BatchReader(parsed(self.options, is_streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """The reader for `spark.readStream`. Raises `BadOption`."""
        self._check(schema)
        return StreamReader(parsed(self.options, is_streaming=True), schema)

    def _check(self, schema: StructType) -> None:
        """Raises `BadOption` if a user asked for a schema with other columns."""
        if schema.fieldNames() != self.schema().fieldNames():
            raise BadOption("schema", "the columns of this source are fixed", "remove the schema")


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("chiplog")` and `spark.readStream.format("chiplog")` available."""
    spark.dataSource.register(ChiplogSource)
