"""Columns as Arrow record batches of exactly the types that Spark expects."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from chiplog_spark.source.columns import Chunk, chunks_of
from chiplog_spark.source.options import Mode, Options
from chiplog_spark.source.reading import found_in
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.client import Client


def rows_of(options: Options, split: Split, schema: StructType) -> Iterator[pa.RecordBatch]:
    """What an executor yields for a split. Raises `WireError`."""
    layout = to_arrow_schema(schema, timezone="UTC")
    with Client(options.access) as client:
        found = found_in(client, split, options)
        batches = options.mode is Mode.BATCHES
        for chunk in chunks_of(found, split, batches=batches, with_payload=options.with_payload):
            yield record_batch(chunk, layout)


def record_batch(chunk: Chunk, layout: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.nulls(chunk.rows, column.type)
        if column.name == "headers" and not chunk.has_headers
        else pa.array(chunk.columns[column.name], column.type)
        for column in layout
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
