"""Which part of a log is compacted, when, and in which groups of segments. Pure decisions."""

from collections.abc import Sequence
from dataclasses import dataclass

from chiplog_broker.storage.config import NO_LIMIT, LogConfig
from chiplog_broker.storage.retention import newest_record_ms
from chiplog_broker.storage.segment import MAX_RELATIVE_OFFSET, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """The part of a log that is not compacted yet."""

    first_dirty_offset: int
    """All records below it are compacted: each key occurs at most once there."""
    end_offset: int
    """The log may be compacted up to here, which is the end of a segment."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """By how much the oldest dirty record has exceeded `max.compaction.lag.ms`; 0 if it has not."""

    @property
    def ratio(self) -> float:
        """The dirty share of the part that may be compacted."""
        all_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / all_bytes if all_bytes else 0.0


def find_dirt(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    cleaner_offset: int,
    log_start_offset: int,
    safe_offset: int,
    now_ms: int,
) -> Dirt:
    """The dirty part of a log, and how much of it may be compacted now.

    `cleaner_offset` is the offset up to which earlier passes have compacted the log. `safe_offset`
    is the lowest of high watermark, durable end offset and last stable offset.
    """
    # A cleaner offset outside the log is outdated: records were deleted or truncated since.
    first_dirty = cleaner_offset
    if not log_start_offset <= cleaner_offset <= segments[-1].end_offset:
        first_dirty = log_start_offset
    end_offset, clean_bytes, cleanable_bytes = first_dirty, 0, 0
    overdue_ms = 0
    is_cleanable = True
    for segment in segments[:-1]:
        if segment.end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        age_ms = now_ms - segment.oldest_ms if _limits_lag(config) else 0
        overdue_ms = max(overdue_ms, age_ms - config.max_compaction_lag_ms)
        # Segments are compacted in order: after the first one that may not be, none is. With a
        # minimal lag configured, the newest record of a segment must be at least that old.
        is_cleanable = (
            is_cleanable
            and segment.sealed
            and not segment.unsynced
            and segment.end_offset <= safe_offset
            and not 0 < config.min_compaction_lag_ms > now_ms - newest_record_ms(segment)
        )
        if is_cleanable:
            end_offset = segment.end_offset
            cleanable_bytes += segment.size_bytes
    return Dirt(
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        overdue_ms=max(overdue_ms, 0),
    )


def is_due(dirt: Dirt, config: LogConfig) -> bool:
    """Whether a log is to be compacted: it is dirty enough, or has been dirty for too long."""
    if dirt.overdue_ms > 0 and dirt.cleanable_bytes > 0:
        return True
    return dirt.ratio > config.min_cleanable_dirty_ratio


def must_roll(active: Segment, config: LogConfig, now_ms: int) -> bool:
    """Whether to roll the active segment now, so that its records can be compacted in time."""
    if active.size_bytes == 0 or not _limits_lag(config):
        return False
    return now_ms - active.created_ms > config.max_compaction_lag_ms


def group_segments(
    segments: Sequence[Segment], *, max_bytes: int, max_index_bytes: int
) -> list[list[Segment]]:
    """Groups of adjacent segments; each group is compacted into one segment.

    Otherwise each compaction would leave smaller segments. The segments of a group fit together
    into one segment even if no record is removed.
    """
    groups: list[list[Segment]] = []
    size_bytes = index_bytes = 0
    for segment in segments:
        group = groups[-1] if groups else []
        fits = (
            size_bytes + segment.size_bytes <= max_bytes
            and index_bytes + segment.index_bytes <= max_index_bytes
            and bool(group)
            and segment.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if not fits:
            group = []
            groups.append(group)
            size_bytes = index_bytes = 0
        group.append(segment)
        size_bytes += segment.size_bytes
        index_bytes += segment.index_bytes
    return groups


def _limits_lag(config: LogConfig) -> bool:
    """Whether `max.compaction.lag.ms` is set."""
    return config.max_compaction_lag_ms < NO_LIMIT
