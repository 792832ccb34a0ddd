"""Whether the new generation of a topic may take its name.

Every record of the old generation must be in the new one. So each old partition must be fenced by
the leader that it has now, with nothing above its high watermark, and be copied up to that end. No
broker lifts a fence by a clock: a leader that was deposed meanwhile cannot have accepted anything,
as its successor is another leader in another epoch, and has to answer for itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chiplog_core.ids import LeaderEpoch, Offset, PartitionIndex, ReplicaRef
from chiplog_core.model.partition_map import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A leader's answer that it accepts no more records in a partition."""

    leader: ReplicaRef
    leader_epoch: LeaderEpoch
    end_offset: Offset
    """The log end offset; it does not rise as long as this leader has this epoch."""
    high_watermark: Offset


def missing_for_swap(
    partitions: Iterable[PartitionState],
    fenced: Mapping[PartitionIndex, Fenced],
    copied_to: Mapping[PartitionIndex, Offset],
) -> Iterator[str]:
    """What is still missing before the swap, one text for each old partition; nothing if all of its
    records are in the new generation.

    `partitions` are those of the map that the swap would replace by compare-and-set, `copied_to` is
    up to which offset of each old partition the new generation has all records, durably.
    """
    for state in partitions:
        missing = _missing(state, fenced.get(state.partition), copied_to.get(state.partition))
        if missing:
            yield f"partition {state.partition} {missing}"


def _missing(state: PartitionState, answer: Fenced | None, copied_to: Offset | None) -> str:
    """What is missing in one partition; empty if nothing is."""
    if state.leader is None:
        return "has no leader"
    if answer is None or (answer.leader, answer.leader_epoch) != (
        state.leader,
        state.leader_epoch,
    ):
        return f"is not fenced by its leader {state.leader} in leader epoch {state.leader_epoch}"
    if answer.high_watermark != answer.end_offset:
        return f"has records above its high watermark {answer.high_watermark}"
    if copied_to is None or copied_to < answer.end_offset:
        return f"is copied up to {copied_to or 0} of {answer.end_offset}"
    if copied_to > answer.end_offset:
        # Something was copied that the leader does not have: the copy is not of this log.
        return f"was copied up to {copied_to}, beyond its end {answer.end_offset}"
    return ""
