"""The plan of a reset: the new offset of each partition, from what the brokers said.

The rules are those of `chiplog_core.groups.reset`, by which coordinators plan too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import UNKNOWN_OFFSET, Group, Offsets, TopicPartition
from chiplog_cli.tables import table
from chiplog_core.groups.reset import CannotShift, ResetOffsets, Strategy, new_offset

HEADER = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The committed and the new offset of one partition. `note` says how the new offset differs
    from the requested one, like an offset beyond the end of the log; empty if it does not."""

    at: TopicPartition
    committed: int | None
    new_offset: int
    note: str = ""


def plan(strategy: Strategy, reset_offsets: Mapping[TopicPartition, ResetOffsets]) -> list[Planned]:
    """The new offsets by topic and partition. Raises `CannotDo` if a partition has no new
    offset."""
    return [_planned(strategy, at, reset_offsets[at]) for at in sorted(reset_offsets)]


def _planned(strategy: Strategy, at: TopicPartition, now: ResetOffsets) -> Planned:
    """The new offset of one partition. Raises `CannotDo` if it has none."""
    try:
        found = new_offset(strategy, now)
    except CannotShift:
        raise CannotDo(
            f"{at} cannot be shifted, because the group has no committed offset there",
            "remove it from --topic, or use --to-earliest, --to-latest or --to-offset",
        ) from None
    note = f"{at}: {found.note}" if found.note else ""
    return Planned(at=at, committed=now.committed, new_offset=found.offset, note=note)


def reset_offsets(
    partitions: Iterable[TopicPartition],
    *,
    committed: Mapping[TopicPartition, int],
    earliest: Offsets,
    latest: Offsets,
    first_offset_of_time: Offsets | None = None,
) -> dict[TopicPartition, ResetOffsets]:
    """The offsets from which the new offset of each partition is computed: the ends of its log, the
    committed one, and that of the requested time, if any. Raises `BrokerRefused` if one is an
    error."""
    times = first_offset_of_time or {}
    return {
        at: ResetOffsets(
            earliest=_answered_offset(earliest, at),
            latest=_answered_offset(latest, at),
            committed=committed.get(at),
            first_offset_of_time=_of_time(times, at),
        )
        for at in partitions
    }


def _of_time(times: Offsets, at: TopicPartition) -> int | None:
    """The offset for the requested time; None if no time was requested, or no record is that
    young."""
    if at not in times:
        return None
    offset = _answered_offset(times, at)
    return None if offset == UNKNOWN_OFFSET else offset


def _answered_offset(answers: Offsets, at: TopicPartition) -> int:
    """The offset that a broker answered. Raises `BrokerRefused`."""
    answer = answers[at]
    if isinstance(answer, BrokerRefused):
        raise answer
    return answer


def check_inactive(group: Group) -> None:
    """Raises `CannotDo` if the group has members, which would overwrite the committed offsets."""
    if not group.is_inactive:
        raise CannotDo(
            f"Assignments can only be reset if the group '{group.group_id}' is inactive, but the "
            f"current state is {group.state}",
            "stop its consumers first",
        )


def text(group_id: str, planned: Iterable[Planned]) -> str:
    """A table with the new offset of each partition."""
    return table(
        HEADER,
        ((group_id, *planned_reset.at, planned_reset.new_offset) for planned_reset in planned),
    )


def document(group_id: str, planned: Iterable[Planned], *, executed: bool) -> dict[str, Any]:
    """The reset for JSON and YAML. `executed` is false if it was only planned."""
    return {
        "group": group_id,
        "executed": executed,
        "offsets": [
            {
                "topic": planned_reset.at.topic,
                "partition": planned_reset.at.partition,
                "offset": planned_reset.committed,
                "newOffset": planned_reset.new_offset,
            }
            for planned_reset in planned
        ],
    }
