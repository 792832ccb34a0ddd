"""The reset in a ConsumerGroup's spec: which offsets it changes, and when it may run.

Coordinator and operator share these rules, so that a dry run shows what a run does.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from chiplog_core.durations import duration_ms
from chiplog_core.groups.at import At
from chiplog_core.groups.reset import (
    CannotShift,
    ResetOffsets,
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
    new_offset,
)
from chiplog_core.ids import MAX_INT64, Offset, PartitionIndex
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.manifest.writing import write
from chiplog_core.model.consumer_group import Reset, ResetStrategy, WhileActive
from chiplog_core.model.group_status import NO_COMMIT, ResetOffset

FINGERPRINT_BYTES: Final = 16
MAX_NOTES: Final = 5
"""How many partitions whose new offset is not the requested one a message lists; of the others it
gives only the number."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class ResetRefused(Exception):  # noqa: N818 - named for what it says
    """A reset is not carried out. The message says why, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """The new offsets of a reset."""

    offsets: tuple[ResetOffset, ...]
    """Sorted by topic and partition."""
    message: str = ""
    """The partitions whose new offset is not the requested one, and why."""


def moment_ms(reset: Reset, now_ms: int) -> int | None:
    """The time to which a reset by time moves offsets, in milliseconds since 1970; None for another
    strategy."""
    if reset.strategy is ResetStrategy.TO_DATETIME and reset.datetime is not None:
        return max((reset.datetime - _EPOCH) // _MILLISECOND, 0)
    if reset.strategy is ResetStrategy.BY_DURATION and reset.duration is not None:
        return max(now_ms - duration_ms(reset.duration), 0)
    return None


def fingerprint(reset: Reset) -> bytes:
    """A digest that is equal for resets to the same offsets. The fields `dryRun` and `whileActive`
    do not change it, so they are set to fixed values."""
    normalized = replace(reset, dry_run=True, while_active=WhileActive.REFUSE)
    text = json.dumps(write(normalized), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()[:FINGERPRINT_BYTES]


def check_same(reset: Reset, known: bytes) -> None:
    """Check that the reset is the same as the one that ran with its id before. `known` is the
    fingerprint of that one. Raises `ResetRefused`."""
    if fingerprint(reset) != known:
        raise ResetRefused(
            f"reset {reset.id} has already run with other settings, and each id runs only once: "
            "set another spec.reset.id"
        )


def check_inactive(reset: Reset, members: int) -> None:
    """Check that the group's members, if it has any, do not prevent the reset. Raises
    `ResetRefused`."""
    if members and reset.while_active is WhileActive.REFUSE:
        raise ResetRefused(
            f"the group has {counted(members, 'member')}: stop its consumers, "
            "or set spec.reset.whileActive to Fence"
        )


def plan(reset: Reset, reset_offsets: Mapping[At, ResetOffsets]) -> ResetPlan:
    """The new offsets of these partitions, from their present ones. Raises `ResetRefused`."""
    if not reset_offsets:
        raise ResetRefused(
            "the group has no committed offsets: list the topics to reset in spec.reset.topics"
        )
    strategy = _strategy(reset)
    offsets, notes = [], []
    for at in sorted(reset_offsets):
        now = reset_offsets[at]
        try:
            found = new_offset(strategy, now)
        except CannotShift:
            raise ResetRefused(
                f"{at} cannot be shifted, because the group has no committed offset there: remove "
                "it from spec.reset.topics, or use another strategy"
            ) from None
        if found.note:
            notes.append(f"{at}: {found.note}")
        offsets.append(
            ResetOffset(
                topic=at.topic,
                partition=PartitionIndex(at.partition),
                offset=NO_COMMIT if now.committed is None else now.committed,
                new_offset=Offset(min(found.offset, MAX_INT64)),
            )
        )
    return ResetPlan(offsets=tuple(offsets), message=_joined_notes(notes))


def _strategy(reset: Reset) -> Strategy:
    """The strategy with its value. Raises `ResetRefused` if the value is missing, which
    validation reports long before."""
    match reset.strategy:
        case ResetStrategy.TO_EARLIEST:
            return ToEarliest()
        case ResetStrategy.TO_LATEST:
            return ToLatest()
        case ResetStrategy.TO_CURRENT:
            return ToCurrent()
        case ResetStrategy.TO_OFFSET:
            return ToOffset(_needed(reset.offset, "offset"))
        case ResetStrategy.SHIFT_BY:
            return ShiftBy(_needed(reset.shift_by, "shiftBy"))
        case ResetStrategy.TO_DATETIME | ResetStrategy.BY_DURATION:
            # The time is not used: the leaders have found its offset, which is in `ResetOffsets`.
            return ToMoment(0)


def _needed(value: int | None, name: str) -> int:
    """The value of a field of spec.reset. Raises `ResetRefused` if it is missing."""
    if value is None:
        raise ResetRefused(f"spec.reset.{name} is missing: add it")
    return value


def _joined_notes(notes: list[str]) -> str:
    """The notes in one message, of which only the first are shown."""
    text = "; ".join(notes[:MAX_NOTES])
    more = len(notes) - MAX_NOTES
    return (f"{text}; and {more} more" if more > 0 else text)[:MAX_MESSAGE_LENGTH]


def counted(number: int, thing: str) -> str:
    """`1 member`, `2 members`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
