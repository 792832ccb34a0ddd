"""The new offset of one partition in a reset of committed offsets.

The rules are those of `kafka-consumer-groups.sh --reset-offsets` (Apache Kafka 4.3.1): an offset
outside of the log is moved to the nearer end of the log; the latest offset is used if no record has
the requested time or a later one, or if "current" is requested and nothing is committed; without a
committed offset, a shift is refused. Unlike with that tool, a committed offset that is not in the
log any more is moved into it, too.

This module does not import the models, because the command line uses it and must start fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first record of the log."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The end of the log, after the last record."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """The group's committed offset; the latest offset if it has committed none."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """The same offset in each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToMoment:
    """The first record of this time or later (to-datetime, by-duration)."""

    timestamp_ms: int
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """The group's committed offset plus this number, which may be negative."""

    records: int


Strategy: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToOffset | ToMoment | ShiftBy


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets:
    """The offsets of one partition that determine its new offset."""

    earliest: int
    """The log start offset."""
    latest: int
    """The high watermark, up to which consumers can read."""
    committed: int | None = None
    """None if the group has committed nothing."""
    first_offset_of_time: int | None = None
    """Only for `ToMoment`: the offset of the first record of that time or later; None if there is
    none."""


@dataclass(frozen=True, slots=True)
class NewOffset:
    """The new offset of a partition. If it is not the requested one, `note` explains why."""

    offset: int
    note: str = ""


class CannotShift(Exception):  # noqa: N818 - named for what it says
    """The group has committed no offset that could be shifted."""


_LATEST_INSTEAD: Final[Mapping[type[Strategy], str]] = {
    ToCurrent: "no offset is committed, so the latest is used",
    ToMoment: "there is no record at or after that time, so the latest offset is used",
}


def new_offset(strategy: Strategy, now: ResetOffsets) -> NewOffset:
    """The new offset of a partition, within its log. `now` are its present offsets. Raises
    `CannotShift`."""
    wanted = _wanted(strategy, now)
    if wanted is None:
        return NewOffset(now.latest, _LATEST_INSTEAD.get(type(strategy), ""))
    if wanted < now.earliest:
        note = f"{wanted} is lower than the earliest offset, so {now.earliest} is used"
        return NewOffset(now.earliest, note)
    if wanted > now.latest:
        note = f"{wanted} is higher than the latest offset, so {now.latest} is used"
        return NewOffset(now.latest, note)
    return NewOffset(wanted)


def _wanted(strategy: Strategy, now: ResetOffsets) -> int | None:
    """The offset that the strategy asks for, which may be outside of the log; None for the
    latest."""
    match strategy:
        case ToEarliest():
            return now.earliest
        case ToOffset(offset):
            return offset
        case ToCurrent():
            return now.committed
        case ToMoment():
            return now.first_offset_of_time
        case ShiftBy(records):
            if now.committed is None:
                raise CannotShift
            return now.committed + records
        case ToLatest():
            return None
