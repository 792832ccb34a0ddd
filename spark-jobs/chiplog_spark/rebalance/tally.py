"""The counts of one partition's records; tallies of splits are merged."""

from dataclasses import dataclass, field

from chiplog_core.rebalance.advice import HOT_PERCENT
from chiplog_core.rebalance.measured import HotKey
from chiplog_spark.rebalance.sketch import Sketch

MAX_HOT_KEYS = 5
"""The maximum number of hot keys of one partition."""


@dataclass(slots=True)
class Tally:
    """Counts of records that were read. Bytes are of keys, values and headers, uncompressed."""

    records: int = 0
    bytes: int = 0
    records_in_window: int = 0
    bytes_in_window: int = 0
    records_without_key: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    keys: Sketch = field(default_factory=Sketch)

    def merge(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.records += other.records
        self.bytes += other.bytes
        self.records_in_window += other.records_in_window
        self.bytes_in_window += other.bytes_in_window
        self.records_without_key += other.records_without_key
        self.extend_range(other.first_timestamp_ms, other.last_timestamp_ms)
        self.keys.merge(other.keys)

    def extend_range(self, first_ms: int | None, last_ms: int | None) -> None:
        """Extend the range of timestamps so that it includes these two; None is no timestamp."""
        if first_ms is not None:
            present_ms = self.first_timestamp_ms
            self.first_timestamp_ms = first_ms if present_ms is None else min(present_ms, first_ms)
        if last_ms is not None:
            present_ms = self.last_timestamp_ms
            self.last_timestamp_ms = last_ms if present_ms is None else max(present_ms, last_ms)

    def hot_keys(self) -> tuple[HotKey, ...]:
        """Keys that certainly have at least `HOT_PERCENT` of the records that were read.

        The sketch counts a key too low by up to its `error`, so that is added for the maximum.
        """
        if not self.records:
            return ()
        found = self.keys.most_frequent(self.records * HOT_PERCENT / 100)
        return tuple(
            HotKey(
                key=key,
                records=count,
                records_at_most=min(self.keys.total, count + self.keys.error),
            )
            for key, count in found[:MAX_HOT_KEYS]
        )
