"""Tallies of Arrow batches: no Spark, no I/O."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chiplog_core.ids import PartitionIndex
from chiplog_core.rebalance.measured import PartitionName
from chiplog_spark.rebalance.sketch import shortened
from chiplog_spark.rebalance.tally import Tally
from chiplog_spark.rebalance.window import Window

READ_COLUMNS: Final = ("topic", "partition", "timestamp", "key", "value", "headers")

Tallies = dict[PartitionName, Tally]


def count_batch(batch: pa.RecordBatch, window: Window, tallies: Tallies) -> int:
    """Add the records of an Arrow batch to the tallies of their partitions; returns their bytes.

    The batch has at least `READ_COLUMNS`.
    """
    if not batch.num_rows:
        return 0
    table = pa.Table.from_batches([batch.select(READ_COLUMNS)])
    table = table.append_column("size", _sizes(batch))
    total_bytes = 0
    found = table.group_by(["topic", "partition"], use_threads=False).aggregate([])
    for place in found.to_pylist():  # topic and partition of each partition in the batch
        part = table
        if found.num_rows > 1:
            is_of_partition = pc.and_(
                pc.equal(table["topic"], place["topic"]),
                pc.equal(table["partition"], place["partition"]),
            )
            part = table.filter(is_of_partition)
        name = PartitionName(place["topic"], PartitionIndex(place["partition"]))
        total_bytes += _count(part, window, tallies.setdefault(name, Tally()))
    return total_bytes


def _count(part: pa.Table, window: Window, tally: Tally) -> int:
    """Add the records of one partition, with their `size` column, to its tally; returns their
    bytes."""
    # Spark's timestamps are in microseconds.
    times_ms = pc.floor(pc.divide(pc.cast(part["timestamp"], pa.int64()), 1000))
    in_window = pc.and_(
        pc.greater_equal(times_ms, window.start_ms), pc.less_equal(times_ms, window.end_ms)
    )
    size_bytes = pc.sum(part["size"]).as_py()
    tally.records += part.num_rows
    tally.bytes += size_bytes
    tally.records_in_window += pc.sum(in_window).as_py() or 0
    tally.bytes_in_window += pc.sum(part["size"].filter(in_window)).as_py() or 0
    tally.records_without_key += part["key"].null_count
    time_range_ms = pc.min_max(times_ms).as_py()
    tally.extend_range(time_range_ms["min"], time_range_ms["max"])
    counts: dict[bytes, int] = {}
    # Long keys are shortened, so entries of different keys may have the same name afterwards.
    for entry in pc.value_counts(part["key"].drop_null()).to_pylist():
        key = shortened(entry["values"])
        counts[key] = counts.get(key, 0) + entry["counts"]
    tally.keys.add(counts)
    return int(size_bytes)


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    """Bytes of each record's key, value and headers, as one column."""
    sizes = pc.add(_lengths(batch.column("key")), _lengths(batch.column("value")))
    headers = batch.column("headers")
    all_headers = pc.list_flatten(headers)
    if not len(all_headers):
        return sizes
    header_sizes = pc.add(
        _lengths(pc.struct_field(all_headers, "key")),
        _lengths(pc.struct_field(all_headers, "value")),
    )
    by_row = pa.table({"row": pc.list_parent_indices(headers), "size": header_sizes})
    summed = by_row.group_by("row", use_threads=False).aggregate([("size", "sum")])
    sum_by_row = dict(zip(summed["row"].to_pylist(), summed["size_sum"].to_pylist(), strict=True))
    # A row without headers is not in the sums.
    row_sums = pa.array((sum_by_row.get(row, 0) for row in range(batch.num_rows)), pa.int64())
    return pc.add(sizes, row_sums)


def _lengths(column: pa.Array) -> pa.Array:
    """The bytes of each value in a column of strings or binaries; 0 for null."""
    return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)
