"""What is read of a partition, over which time rates are, and the figures that follow.

Of each partition the newest offsets are read, a bounded number of them. Where that is all of it,
bytes and records are exact; else they are what was read, times the offsets there are over the
offsets that were read.

Rates are of the records whose timestamps are in a window that ends with the measuring. It is
shorter where no partition has anything so old, and for a partition of which the window's beginning
was not read, it begins with the first record that was. Timestamps are those of producers
(CreateTime) or of brokers (LogAppendTime), as the topic has it; one beyond the end is in no window.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chiplog_core.rebalance.measured import Measured, PartitionName
from chiplog_spark.rebalance.tally import Tally

SHORTEST_MS = 1_000
"""Rates are never over less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Offsets of one partition: `start` to `end` are there, `read_from` to `end` are read."""

    start: int
    end: int
    read_from: int

    @property
    def is_sampled(self) -> bool:
        """Whether a part is not read."""
        return self.read_from > self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `start_ms` to `end_ms`, both in it, since 1970."""

    start_ms: int
    end_ms: int


def reach(start: int, end: int, sample_records: int) -> Reach:
    """The newest offsets, at most so many."""
    return Reach(start=start, end=end, read_from=max(start, end - sample_records))


def covered(window: Window, tallies: Iterable[Tally]) -> Window:
    """The window, from the oldest record of all on where there is none as old as the window."""
    firsts = [
        tally.first_timestamp_ms
        for tally in tallies
        if tally.first_timestamp_ms is not None and tally.first_timestamp_ms >= 0
    ]
    oldest = min(firsts, default=window.start_ms)
    latest_start = window.end_ms - SHORTEST_MS
    return Window(start_ms=min(max(window.start_ms, oldest), latest_start), end_ms=window.end_ms)


def measured(tally: Tally, of: Reach, window: Window) -> Measured:
    """The figures of one partition; `window` is the one that is covered."""
    start_ms = window.start_ms
    if of.is_sampled and tally.first_timestamp_ms is not None:
        start_ms = max(start_ms, tally.first_timestamp_ms)
    seconds = max(window.end_ms - start_ms, SHORTEST_MS) / 1000
    read = of.end - of.read_from
    factor = (of.end - of.start) / read if of.is_sampled and read else 1
    return Measured(
        bytes=round(tally.bytes * factor),
        records=round(tally.records * factor),
        bytes_per_second=tally.bytes_in_window / seconds,
        records_per_second=tally.records_in_window / seconds,
        sampled_records=tally.records,
        hot_keys=tally.hot_keys(),
    )


def measurements(
    tallies: Mapping[PartitionName, Tally], reaches: Mapping[PartitionName, Reach], window: Window
) -> dict[PartitionName, Measured]:
    """The figures of every partition that was to be read; one without a tally had no record."""
    over = covered(window, tallies.values())
    return {name: measured(tallies.get(name) or Tally(), of, over) for name, of in reaches.items()}
