"""Which offsets of a partition are read, the time window of rates, and the resulting figures.

A limited number of the newest offsets of each partition is read. If these are all offsets, bytes
and records are exact. Otherwise the counts are multiplied by the number of all offsets divided by
the number of read ones.

Rates count records whose timestamps are in a window that ends with the measurement. The window is
shorter if no partition has older records; for a partition whose records from the beginning of the
window were not read, it begins with the first record that was read. Timestamps are those of
producers (CreateTime) or of brokers (LogAppendTime), depending on the topic; timestamps after the
end are not counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chiplog_core.rebalance.measured import Measured, PartitionName
from chiplog_spark.rebalance.tally import Tally

SHORTEST_MS = 1_000
"""The shortest time over which rates are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The offsets of one partition: `start` to `end` exist, `read_from` to `end` are read."""

    start: int
    end: int
    read_from: int

    @property
    def is_sampled(self) -> bool:
        """Whether only a part is read."""
        return self.read_from > self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time window from `start_ms` to `end_ms`, both inclusive, in milliseconds since 1970."""

    start_ms: int
    end_ms: int


def reach(start: int, end: int, sample_records: int) -> Reach:
    """The `Reach` of a partition of which at most the newest `sample_records` offsets are read."""
    return Reach(start=start, end=end, read_from=max(start, end - sample_records))


def covered(window: Window, tallies: Iterable[Tally]) -> Window:
    """The window, shortened to begin with the oldest record of all partitions.

    It remains at least `SHORTEST_MS` long.
    """
    first_timestamps_ms = [
        tally.first_timestamp_ms
        for tally in tallies
        if tally.first_timestamp_ms is not None and tally.first_timestamp_ms >= 0  # -1: no time
    ]
    oldest_ms = min(first_timestamps_ms, default=window.start_ms)
    latest_start_ms = window.end_ms - SHORTEST_MS
    start_ms = min(max(window.start_ms, oldest_ms), latest_start_ms)
    return Window(start_ms=start_ms, end_ms=window.end_ms)


def measured(tally: Tally, offsets: Reach, window: Window) -> Measured:
    """The figures of one partition, from the tally of its read `offsets`.

    If only a sample was read, its bytes and records are multiplied to stand for all offsets, and
    its rates begin with the first record that was read. `window` is the result of `covered`.
    """
    start_ms = window.start_ms
    if offsets.is_sampled and tally.first_timestamp_ms is not None:
        start_ms = max(start_ms, tally.first_timestamp_ms)
    seconds = max(window.end_ms - start_ms, SHORTEST_MS) / 1000
    read_offsets = offsets.end - offsets.read_from
    factor = 1.0
    if offsets.is_sampled and read_offsets:
        factor = (offsets.end - offsets.start) / read_offsets
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
    """The figures of all partitions to be measured; one without a tally had no records."""
    rate_window = covered(window, tallies.values())
    return {
        name: measured(tallies.get(name) or Tally(), offsets, rate_window)
        for name, offsets in reaches.items()
    }
