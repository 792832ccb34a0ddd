"""Columns as Arrow record batches of exactly the types that Spark expects."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from chiplog_spark.source.columns import Chunk, chunks_of
from chiplog_spark.source.options import Mode, Options
from chiplog_spark.source.reading import batches_of_split
from chiplog_spark.source.splits import Split
from chiplog_spark.wire.client import Client


def rows_of(options: Options, split: Split, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Read a split in an executor, as Arrow batches with Spark's `schema`. Raises `WireError`."""
    layout = to_arrow_schema(schema, timezone="UTC")
    with Client(options.access) as client:
        found = batches_of_split(client, split, options)
        is_by_batch = options.mode is Mode.BATCHES
        payload = options.with_payload
        for chunk in chunks_of(found, split, batches=is_by_batch, with_payload=payload):
            yield record_batch(chunk, layout)


def record_batch(chunk: Chunk, layout: pa.Schema) -> pa.RecordBatch:
    """An Arrow record batch with the rows of a chunk."""
    # Most records have no headers: an array of nulls is faster than converting a list of None.
    arrays = [
        pa.nulls(chunk.rows, column.type)
        if column.name == "headers" and not chunk.has_headers
        else pa.array(chunk.columns[column.name], column.type)
        for column in layout
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
