"""The negative control: what must be reported when a run's own history is spoiled.

A verdict of "nothing lost" is worth what its checkers see. So each real history is judged once
more with one record lost, one stored twice, and one offset of two values, all planted in it; and
that of the groups with a commit forgotten, a record skipped, and a group without progress.
"""

from dataclasses import replace

from e2e.chaos.group_checkers import (
    GROUP_SKIPPED,
    NO_GROUP_PROGRESS,
    OFFSET_REGRESSION,
    check_groups,
)
from e2e.chaos.group_history import Found, GroupHistory, Place, Processed
from e2e.sim.checkers import check
from e2e.sim.history import Event, History, Kind

MUST_BE_SEEN = frozenset({"lost-write", "duplicate", "inconsistent-offsets"})
MUST_BE_SEEN_OF_GROUPS = frozenset({OFFSET_REGRESSION, GROUP_SKIPPED, NO_GROUP_PROGRESS})


def missed(history: History) -> frozenset[str]:
    """What was planted and is not reported; empty where the checkers see it all."""
    return MUST_BE_SEEN - {one.name for one in check(spoiled(history))}


def spoiled(history: History) -> History:
    """The history with three records of one partition gone wrong. Raises where it has too few."""
    acked = {one.value: one for one in history.events if one.kind is Kind.ACKED}
    for partition, stored in history.final.items():
        promised = [pair for pair in stored if pair[1] in acked]
        if len(promised) >= 3:
            lost, twice, two_valued = promised[0], promised[1], promised[-1]
            kept = [pair for pair in stored if pair != lost]
            again = (history.ends[partition], twice[1])
            return replace(
                history,
                final={**history.final, partition: [*kept, again]},
                events=[*history.events, another_value(acked[two_valued[1]])],
            )
    raise ValueError("no partition has three acknowledged records: nothing can be planted")


def another_value(acked: Event) -> Event:
    """A reader that saw something else at the offset of an acknowledged record."""
    return replace(acked, kind=Kind.READ, client="planted", value=f"not {acked.value}")


def missed_of_groups(groups: GroupHistory, records: History) -> frozenset[str]:
    """As `missed`, for what is planted in the history of the groups."""
    planted = spoiled_groups(groups, records)
    return MUST_BE_SEEN_OF_GROUPS - {one.name for one in check_groups(planted, records)}


def spoiled_groups(groups: GroupHistory, records: History) -> GroupHistory:
    """The groups' history with one wrong partition of one group. Raises where no group has
    committed enough."""
    for place, end in groups.furthest().items():
        below = [offset for offset, _ in records.final.get(place.partition, ()) if offset < end]
        if below:
            forgotten = Found(float("inf"), place, end - 1, "planted")
            kept = (part for one in groups.processed for part in without(one, place, below[-1]))
            return replace(
                groups,
                # As if nobody knew that it may have been committed without an answer.
                commits=[one for one in groups.commits if one.is_acknowledged],
                found=[*groups.found, forgotten],
                processed=[*kept],
                final={**groups.final, place: records.ends[place.partition] - 1},
            )
    raise ValueError("no group committed anything that is there: nothing can be planted")


def without(one: Processed, place: Place, offset: int) -> tuple[Processed, ...]:
    """What is left of records in a row without that one."""
    if one.place != place or not one.first <= offset <= one.last:
        return (one,)
    parts = one._replace(last=offset - 1), one._replace(first=offset + 1)
    return tuple(part for part in parts if part.first <= part.last)
