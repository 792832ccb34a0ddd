"""Which segments have had their time. A pure decision; the log acts on it.

Of a topic that is compacted and not deleted from, only what lies below the log start goes.

Only whole segments go, oldest first, and none that holds a record at or above the high
watermark: such a record may still become the only copy of something acknowledged.
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
    """How many of the oldest segments may go; the newest only if it holds records."""
    excess_bytes = retention_ms = -1
    if config.deletes:
        retention_ms = config.retention_ms
    if config.deletes and config.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    expired = 0
    for segment in segments:
        if segment.end_offset > high_watermark or segment.size_bytes == 0:
            break
        is_passed = segment.end_offset <= log_start_offset and segment is not segments[-1]
        try:
            is_old = 0 <= retention_ms < now_ms - newest_record_ms(segment)
        except DamagedBatchError:
            break  # nobody knows how old it is; a read or the scrub says what is wrong with it
        if not (is_passed or is_old or excess_bytes >= segment.size_bytes):
            break
        expired += 1
        excess_bytes -= segment.size_bytes
    return expired


def newest_record_ms(segment: Segment) -> int:
    """Records without timestamps are as old as our knowledge of their segment."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.created_ms
