"""Whether all that counts for itself agrees where a log ends: compared after each append.

The log counts offsets, its newest segment counts offsets and bytes, the file knows its size, and
the epoch history knows the newest epoch. Where two of them disagree, something wrote that is not
known of, or counted wrong, and what is appended next would stand in the wrong place. Such pairs
of assertions, on both sides of a boundary and also in production, are TigerBeetle's manner
(docs/TIGER_STYLE.md there).
"""

from chiplog_broker.storage.log_state import LogState
from chiplog_broker.storage.segment import Segment


def is_continuous(state: LogState, segment: Segment, leader_epoch: int) -> bool:
    """Whether all agree, after an append to `segment` that ended with a batch of this epoch."""
    return (
        segment.end_offset == state.end_offset
        and segment.log.size() == segment.size_bytes
        and state.epochs.last_epoch == leader_epoch
    )


def what_disagrees(state: LogState, segment: Segment, leader_epoch: int) -> str:
    """What each of them says, for people."""
    return (
        f"the log ends at offset {state.end_offset}, its newest segment at {segment.end_offset}; "
        f"the file has {segment.log.size()} bytes, its batches {segment.size_bytes}; the epoch "
        f"history ends with {state.epochs.last_epoch}, the batches with {leader_epoch}"
    )
