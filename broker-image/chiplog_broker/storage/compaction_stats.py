"""What the cleaner of a data directory has done, and what waits for it."""

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerStats:
    """Since the broker started."""

    passes: int = 0
    aborted: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    removed_records: int = 0
    busy_s: float = 0.0
    last_pass_s: float = 0.0
    last_map_filled: float = 0.0
    last_recopied: float = 0.0
    """The share of what the last pass read that it wrote again."""
    max_dirty_ratio: float = 0.0
    max_delay_ms: int = 0
    """By how much the log that waits longest is over its `max.compaction.lag.ms`."""
    uncleanable: int = 0
    """Logs that cannot be compacted: damaged ones, and those for which there was no room."""
