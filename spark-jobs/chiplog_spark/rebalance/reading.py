"""Spark reads the partitions and counts records: one tally for each split, merged by partition.

Executors use the data source's own reader and count where they read: no record passes through the
JVM. A task returns only tallies, whose size is limited, so the memory of the shuffle and the driver
is limited, too.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from chiplog_core.rebalance.measured import PartitionName
from chiplog_spark.progress import (
    Done,
    Report,
    counts_of_split,
    progress,
    reporting_progress,
    to_log_only,
)
from chiplog_spark.rebalance.counting import Tallies, count_batch
from chiplog_spark.rebalance.planning import Inventory
from chiplog_spark.rebalance.tally import Tally
from chiplog_spark.rebalance.window import Window
from chiplog_spark.source.arrow import rows_of
from chiplog_spark.source.options import RECORDS_A_SPLIT, Mode, Options
from chiplog_spark.source.ranges import Range
from chiplog_spark.source.schema import schema_for
from chiplog_spark.source.splits import Split, splits_of
from chiplog_spark.sums import Sums
from chiplog_spark.wire.access import Access
from chiplog_spark.wire.facts import Isolation
from chiplog_spark.wire.verdicts import LEADER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counted: TypeAlias = tuple[PartitionName, Tally]

MAX_TASKS: Final = 10_000
"""The maximum number of tasks. If there are more splits, a task reads several."""


def read_tallies(
    spark: "SparkSession",
    access: Access,
    inventory: Inventory,
    window: Window,
    bytes_per_second: int | None = None,
    report: Report = to_log_only,
) -> Tallies:
    """The tally of every partition with a record, read by all executors together.

    `bytes_per_second` limits all tasks together; None means no limit. `report` is called with the
    progress.
    """
    splits = splits_in(inventory)
    if not splits:
        return {}
    context = spark.sparkContext
    workers = max(1, context.defaultParallelism)
    task_bytes_per_second = max(1, bytes_per_second // workers) if bytes_per_second else None
    done = context.accumulator(Counter(), Sums())
    tallies = (
        context.parallelize(splits, min(len(splits), MAX_TASKS))
        .flatMap(_counter(access, window, task_bytes_per_second, done.add))
        .reduceByKey(_merged, numPartitions=workers)
    )
    with reporting_progress(lambda: progress(splits, done.value), report):
        return dict(tallies.collect())


def splits_in(inventory: Inventory) -> list[Split]:
    """All splits to read; a large partition is read by many tasks."""
    ranges: dict[str, list[Range]] = {}
    for name, offsets in sorted(inventory.reaches.items()):
        range_ = Range(name.partition, offsets.read_from, offsets.end)
        ranges.setdefault(name.topic, []).append(range_)
    return [
        split
        for topic, of_topic in ranges.items()
        for split in splits_of(inventory.topics[topic], LEADER, of_topic, RECORDS_A_SPLIT)
    ]


def _counter(
    access: Access,
    window: Window,
    bytes_per_second: int | None,
    add_progress: Callable[[Done], None],
) -> Callable[[Split], Iterator[Counted]]:
    """The function with which a task counts a split's records, within the task's rate limit."""

    def count(split: Split) -> Iterator[Counted]:
        # Records that retention deletes in the meantime are skipped: they are no load any more.
        # Records are load also if their transaction is open or aborted.
        options = Options(
            access=access,
            topic=split.at.topic,
            fails_on_data_loss=False,
            isolation=Isolation.READ_UNCOMMITTED,
        )
        tallies: Tallies = {}
        began_s, read_bytes = time.monotonic(), 0
        for batch in rows_of(options, split, schema_for(Mode.RECORDS, with_payload=False)):
            read_bytes += count_batch(batch, window, tallies)
            if bytes_per_second:
                # How much earlier this was read than the limit allows.
                ahead_s = read_bytes / bytes_per_second - (time.monotonic() - began_s)
                time.sleep(max(0.0, ahead_s))
        add_progress(counts_of_split(split, read_bytes))
        yield from tallies.items()

    return count


def _merged(tally: Tally, other: Tally) -> Tally:
    """Add `other` to `tally` in place, as the function of a reduction; returns `tally`."""
    tally.merge(other)
    return tally
