"""Checks after each append that all counters agree on the end of the log.

The log counts offsets, its active segment counts offsets and bytes, the file has its size, and the
epoch history has the newest epoch. If two of them disagree, there was a write from elsewhere or a
bug, and the next append would be stored at a wrong position. Such assertions on both sides of an
interface, also in production, follow TigerBeetle's practice (docs/TIGER_STYLE.md there).
"""

from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.segment import Segment


def is_continuous(state: LogState, segment: Segment, leader_epoch: int) -> bool:
    """Whether all counters of the log's end agree after an append to `segment`.

    `leader_epoch` is that of the last batch that was appended.
    """
    return (
        segment.end_offset == state.end_offset
        and segment.log.size() == segment.size_bytes
        and state.epochs.last_epoch == leader_epoch
    )


def what_disagrees(state: LogState, segment: Segment, leader_epoch: int) -> str:
    """All counters that `is_continuous` compares, as a text for an error message."""
    return (
        f"the log ends at offset {state.end_offset}, its newest segment at {segment.end_offset}; "
        f"the file has {segment.log.size()} bytes, its batches {segment.size_bytes}; the epoch "
        f"history ends with {state.epochs.last_epoch}, the batches with {leader_epoch}"
    )
