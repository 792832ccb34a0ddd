"""The plan of a reset: the new offset of each partition, from what the brokers said.

Rules of `kafka-consumer-groups.sh --reset-offsets`: an offset outside of the log is moved to its
nearer end; where there is no record of a time or later, and where "current" has no meaning, the
latest offset is taken; what was never committed cannot be shifted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import UNKNOWN_OFFSET, Group, Offsets, TopicPartition
from chiplog_cli.reset_strategy import (
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
)
from chiplog_cli.tables import table

HEADER = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the plan for one partition is made from."""

    earliest: int
    latest: int
    committed: int | None = None
    of_time: int | None = None
    """The first offset of the time in question, where the strategy has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One partition, where it stands and where it goes; `note` says if that is not as asked."""

    at: TopicPartition
    committed: int | None
    new_offset: int
    note: str = ""


def plan(strategy: Strategy, standings: Mapping[TopicPartition, Standing]) -> list[Planned]:
    """By topic and partition. Raises `CannotDo` where a partition has no new offset."""
    return [_planned(strategy, at, standings[at]) for at in sorted(standings)]


def _planned(strategy: Strategy, at: TopicPartition, now: Standing) -> Planned:
    wanted, note = _wanted(strategy, at, now)
    new_offset = min(max(wanted, now.earliest), now.latest)
    if new_offset != wanted:
        bound = "earliest" if wanted < now.earliest else "latest"
        beyond = "lower" if wanted < now.earliest else "higher"
        note = f"{at}: {wanted} is {beyond} than the {bound} offset, {new_offset} is used"
    return Planned(at=at, committed=now.committed, new_offset=new_offset, note=note)


def _wanted(strategy: Strategy, at: TopicPartition, now: Standing) -> tuple[int, str]:
    match strategy:
        case ToEarliest():
            found = now.earliest
        case ToOffset(offset):
            found = offset
        case ToCurrent() if now.committed is not None:
            found = now.committed
        case ToMoment() if now.of_time is not None:
            found = now.of_time
        case ShiftBy(records) if now.committed is not None:
            found = now.committed + records
        case ShiftBy():
            raise CannotDo(
                f"{at} cannot be shifted, because the group has committed no offset there",
                "leave it out of --topic, or use --to-earliest, --to-latest or --to-offset",
            )
        case ToLatest() | ToCurrent() | ToMoment():
            return now.latest, _FALLS_BACK.get(type(strategy), "").format(at=at)
    return found, ""


_FALLS_BACK: Mapping[type[Strategy], str] = {
    ToCurrent: "{at}: no offset is committed, the latest is used",
    ToMoment: "{at}: no record is of that time or later, the latest is used",
}


def standings(
    partitions: Iterable[TopicPartition],
    *,
    committed: Mapping[TopicPartition, int],
    earliest: Offsets,
    latest: Offsets,
    of_time: Offsets | None = None,
) -> dict[TopicPartition, Standing]:
    """Of each partition. Raises `BrokerRefused` where a broker did not say it."""
    times = of_time or {}
    return {
        at: Standing(
            earliest=_said(earliest, at),
            latest=_said(latest, at),
            committed=committed.get(at),
            of_time=_of_time(times, at),
        )
        for at in partitions
    }


def _of_time(times: Offsets, at: TopicPartition) -> int | None:
    if at not in times:
        return None
    offset = _said(times, at)
    return None if offset == UNKNOWN_OFFSET else offset


def _said(answers: Offsets, at: TopicPartition) -> int:
    answer = answers[at]
    if isinstance(answer, BrokerRefused):
        raise answer
    return answer


def check_inactive(group: Group) -> None:
    """Raises `CannotDo` while the group has members: they would overwrite what is committed."""
    if not group.is_inactive:
        raise CannotDo(
            f"Assignments can only be reset if the group '{group.group_id}' is inactive, but the "
            f"current state is {group.state}",
            "stop its consumers first",
        )


def text(group_id: str, planned: Iterable[Planned]) -> str:
    return table(HEADER, ((group_id, *one.at, one.new_offset) for one in planned))


def document(group_id: str, planned: Iterable[Planned], *, executed: bool) -> dict[str, Any]:
    return {
        "group": group_id,
        "executed": executed,
        "offsets": [
            {
                "topic": one.at.topic,
                "partition": one.at.partition,
                "offset": one.committed,
                "newOffset": one.new_offset,
            }
            for one in planned
        ],
    }
