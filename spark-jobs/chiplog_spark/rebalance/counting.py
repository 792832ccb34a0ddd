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
    """Count the records of a batch with `READ_COLUMNS`; returns their bytes."""
    if not batch.num_rows:
        return 0
    table = pa.Table.from_batches([batch.select(READ_COLUMNS)])
    table = table.append_column("size", _sizes(batch))
    total = 0
    places = table.group_by(["topic", "partition"], use_threads=False).aggregate([])
    for place in places.to_pylist():
        part = table
        if places.num_rows > 1:
            is_here = pc.and_(
                pc.equal(table["topic"], place["topic"]),
                pc.equal(table["partition"], place["partition"]),
            )
            part = table.filter(is_here)
        name = PartitionName(place["topic"], PartitionIndex(place["partition"]))
        total += _count(part, window, tallies.setdefault(name, Tally()))
    return total


def _count(part: pa.Table, window: Window, tally: Tally) -> int:
    times_ms = pc.floor(pc.divide(pc.cast(part["timestamp"], pa.int64()), 1000))
    in_window = pc.and_(
        pc.greater_equal(times_ms, window.start_ms), pc.less_equal(times_ms, window.end_ms)
    )
    size = pc.sum(part["size"]).as_py()
    tally.records += part.num_rows
    tally.bytes += size
    tally.records_in_window += pc.sum(in_window).as_py() or 0
    tally.bytes_in_window += pc.sum(part["size"].filter(in_window)).as_py() or 0
    tally.records_without_key += part["key"].null_count
    ends = pc.min_max(times_ms).as_py()
    tally.extend_range(ends["min"], ends["max"])
    counts: dict[bytes, int] = {}
    for entry in pc.value_counts(part["key"].drop_null()).to_pylist():
        key = shortened(entry["values"])
        counts[key] = counts.get(key, 0) + entry["counts"]
    tally.keys.add(counts)
    return int(size)


def _sizes(batch: pa.RecordBatch) -> pa.Array:
    """Bytes of each record's key, value and headers."""
    sizes = pc.add(_lengths(batch.column("key")), _lengths(batch.column("value")))
    headers = batch.column("headers")
    flat = pc.list_flatten(headers)
    if not len(flat):
        return sizes
    of_each = pc.add(
        _lengths(pc.struct_field(flat, "key")), _lengths(pc.struct_field(flat, "value"))
    )
    by_row = pa.table({"row": pc.list_parent_indices(headers), "size": of_each})
    summed = by_row.group_by("row", use_threads=False).aggregate([("size", "sum")])
    of_row = dict(zip(summed["row"].to_pylist(), summed["size_sum"].to_pylist(), strict=True))
    more = pa.array((of_row.get(row, 0) for row in range(batch.num_rows)), pa.int64())
    return pc.add(sizes, more)


def _lengths(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)
