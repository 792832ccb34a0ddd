"""The negative control: the checkers must report violations that are planted in a run's history.

Without it, "nothing lost" could mean that the checkers see nothing. So each real history is judged
once more with three planted violations: a lost record, a record stored twice, and an offset with
two values. The groups' history gets a forgotten commit, a skipped record and a group without
progress.
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
    """The planted violations that the checkers do not report; empty if they report all."""
    return MUST_BE_SEEN - {one.name for one in check(spoiled(history))}


def spoiled(history: History) -> History:
    """The history with a lost, a duplicate and a two-valued record in one partition.

    Raises `ValueError` if no partition has three acknowledged records.
    """
    acked = {one.value: one for one in history.events if one.kind is Kind.ACKED}
    for partition, stored in history.final.items():
        stored_acked = [pair for pair in stored if pair[1] in acked]
        if len(stored_acked) >= 3:
            lost, twice, two_valued = stored_acked[0], stored_acked[1], stored_acked[-1]
            kept = [pair for pair in stored if pair != lost]
            duplicate = (history.ends[partition], twice[1])
            return replace(
                history,
                final={**history.final, partition: [*kept, duplicate]},
                events=[*history.events, another_value(acked[two_valued[1]])],
            )
    raise ValueError("no partition has three acknowledged records: nothing can be planted")


def another_value(acked: Event) -> Event:
    """The event that a reader saw another value at the offset of an acknowledged record."""
    return replace(acked, kind=Kind.READ, client="planted", value=f"not {acked.value}")


def missed_of_groups(groups: GroupHistory, records: History) -> frozenset[str]:
    """As `missed`, for the violations planted in the history of the groups."""
    planted = spoiled_groups(groups, records)
    return MUST_BE_SEEN_OF_GROUPS - {one.name for one in check_groups(planted, records)}


def spoiled_groups(groups: GroupHistory, records: History) -> GroupHistory:
    """The groups' history with all three violations planted in one partition of one group.

    Raises `ValueError` if no group has committed an offset above a stored record.
    """
    for place, end in groups.furthest().items():
        below = [offset for offset, _ in records.final.get(place.partition, ()) if offset < end]
        if below:
            # An answer after everything else that is lower than the acknowledged commit.
            forgotten = Found(float("inf"), place, end - 1, "planted")
            kept = (part for one in groups.processed for part in without(one, place, below[-1]))
            return replace(
                groups,
                # Without the unanswered commits, which would excuse the lower offset.
                commits=[one for one in groups.commits if one.is_acknowledged],
                found=[*groups.found, forgotten],
                processed=[*kept],
                final={**groups.final, place: records.ends[place.partition] - 1},
            )
    raise ValueError("no group committed anything that is there: nothing can be planted")


def without(one: Processed, place: Place, offset: int) -> tuple[Processed, ...]:
    """The processed range without this offset: the range itself, or the parts before and after
    it."""
    if one.place != place or not one.first <= offset <= one.last:
        return (one,)
    parts = one._replace(last=offset - 1), one._replace(first=offset + 1)
    return tuple(part for part in parts if part.first <= part.last)
