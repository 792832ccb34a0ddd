"""Where a reset puts a committed offset: one partition's facts in, its new offset out.

The rules are those of `kafka-consumer-groups.sh --reset-offsets` (Apache Kafka 4.3.1): an offset
outside of the log is moved to its nearer end; where there is no record of a time or later, and
where "current" has no meaning, the latest offset is taken; what was never committed cannot be
shifted. A committed offset that is not in the log any more comes back into it, which the tool does
not see to.

Imports nothing of the models: the command line, which begins fast, plans with this too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first record there is."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """Behind the last record there is."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """Where the group stands; the latest where it stands nowhere."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """One and the same offset in each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToMoment:
    """The first record of this time or later (to-datetime, by-duration)."""

    timestamp_ms: int
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """This many records on, or back where negative, from where the group stands."""

    records: int


Strategy: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToOffset | ToMoment | ShiftBy


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the new offset of one partition is made from."""

    earliest: int
    """Where its log begins."""
    latest: int
    """The high watermark: as far as consumers can read."""
    committed: int | None = None
    """None where the group has committed nothing."""
    of_time: int | None = None
    """The first offset of the time in question, where the strategy has one; None: there is none."""


@dataclass(frozen=True, slots=True)
class NewOffset:
    """Where a partition goes; `note` says why, if that is not what was asked for."""

    offset: int
    note: str = ""


class CannotShift(Exception):  # noqa: N818 - named for what it says
    """The group has committed no offset that could be shifted."""


_FALLS_BACK: Final[Mapping[type[Strategy], str]] = {
    ToCurrent: "no offset is committed, so the latest is used",
    ToMoment: "there is no record at or after that time, so the latest offset is used",
}


def new_offset(strategy: Strategy, now: Standing) -> NewOffset:
    """The new offset of a partition, within its log. Raises `CannotShift`."""
    wanted = _wanted(strategy, now)
    if wanted is None:
        return NewOffset(now.latest, _FALLS_BACK.get(type(strategy), ""))
    if wanted < now.earliest:
        note = f"{wanted} is lower than the earliest offset, so {now.earliest} is used"
        return NewOffset(now.earliest, note)
    if wanted > now.latest:
        note = f"{wanted} is higher than the latest offset, so {now.latest} is used"
        return NewOffset(now.latest, note)
    return NewOffset(wanted)


def _wanted(strategy: Strategy, now: Standing) -> int | None:
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
            return now.of_time
        case ShiftBy(records):
            if now.committed is None:
                raise CannotShift
            return now.committed + records
        case ToLatest():
            return None
