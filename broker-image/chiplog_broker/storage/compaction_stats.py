"""Statistics of the cleaner of a data directory."""

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerStats:
    """Statistics since the broker started."""

    passes: int = 0
    aborted: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    removed_records: int = 0
    busy_s: float = 0.0
    last_pass_s: float = 0.0
    last_map_filled: float = 0.0
    """The share of the key map that the last pass used."""
    last_recopied: float = 0.0
    """The bytes that the last pass wrote, as a share of those that it read."""
    max_dirty_ratio: float = 0.0
    max_delay_ms: int = 0
    """The longest time by which a log is overdue after `max.compaction.lag.ms`."""
    uncleanable: int = 0
    """Logs that cannot be compacted: damaged ones, and those for which the disk was full."""
