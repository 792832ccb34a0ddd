"""Which segments have expired. A pure decision; the log acts on it.

If a topic is only compacted, only segments below the log start offset are deleted. Only complete
segments are deleted, oldest first, and none with a record at or above the high watermark: such a
record may still become an acknowledged one, and this may be its only copy.
"""

from collections.abc import Sequence

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.errors import DamagedBatchError


def count_expired(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> int:
    """The number of segments to delete, counted from the oldest one.

    The active segment is included only if it has records.
    """
    excess_bytes = retention_ms = -1  # no limit: nothing expires by size or age
    if config.deletes:
        retention_ms = config.retention_ms
    if config.deletes and config.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    expired = 0
    for segment in segments:
        if segment.end_offset > high_watermark or segment.size_bytes == 0:
            break
        is_below_start = segment.end_offset <= log_start_offset and segment is not segments[-1]
        try:
            is_old = 0 <= retention_ms < now_ms - newest_record_ms(segment)
        except DamagedBatchError:
            break  # its age is unknown; a read or the scrub will report the damage
        if not (is_below_start or is_old or excess_bytes >= segment.size_bytes):
            break
        expired += 1
        excess_bytes -= segment.size_bytes
    return expired


def newest_record_ms(segment: Segment) -> int:
    """The largest timestamp of the segment's records, or if they have none, the time when the
    segment was created or opened."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.created_ms
