"""The table of a group's states and transitions.

A group changes its state only by this table; an event that it does not list for a state cannot
happen in it. The picture in docs/groups.md is generated from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from chiplog_core.model.group_status import GroupState

_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD


class GroupEvent(StrEnum):
    """The events that change a group's state, with the texts of the picture in the docs."""

    JOINED = "a member joins"
    REJOINED = "a member joins again with other protocols, or the leader does"
    REPLACED = "a static member comes back"
    LEFT = "a member leaves or is lost"
    SYNC_MISSED = "members have not synced in time"
    OVERFULL = "there are more members than allowed"
    ALL_JOINED = "all have joined, or the time is over"
    NOBODY_LEFT = "nobody is left"
    ASSIGNED = "the leader brings the assignment"
    ABANDONED = "it is abandoned"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = {
    (_EMPTY, GroupEvent.JOINED): _PREPARING,
    (_PREPARING, GroupEvent.JOINED): _PREPARING,
    (_PREPARING, GroupEvent.REJOINED): _PREPARING,
    (_PREPARING, GroupEvent.REPLACED): _PREPARING,
    (_PREPARING, GroupEvent.LEFT): _PREPARING,
    (_PREPARING, GroupEvent.NOBODY_LEFT): _EMPTY,
    (_PREPARING, GroupEvent.ALL_JOINED): _COMPLETING,
    (_COMPLETING, GroupEvent.JOINED): _PREPARING,
    (_COMPLETING, GroupEvent.REJOINED): _PREPARING,
    (_COMPLETING, GroupEvent.REPLACED): _PREPARING,
    (_COMPLETING, GroupEvent.LEFT): _PREPARING,
    (_COMPLETING, GroupEvent.SYNC_MISSED): _PREPARING,
    (_COMPLETING, GroupEvent.OVERFULL): _PREPARING,
    (_COMPLETING, GroupEvent.ASSIGNED): _STABLE,
    (_STABLE, GroupEvent.JOINED): _PREPARING,
    (_STABLE, GroupEvent.REJOINED): _PREPARING,
    (_STABLE, GroupEvent.REPLACED): _STABLE,
    (_STABLE, GroupEvent.LEFT): _PREPARING,
    (_STABLE, GroupEvent.SYNC_MISSED): _PREPARING,
    (_STABLE, GroupEvent.OVERFULL): _PREPARING,
    **{
        (state, GroupEvent.ABANDONED): _DEAD for state in (_EMPTY, _PREPARING, _COMPLETING, _STABLE)
    },
}


def after(state: GroupState, event: GroupEvent) -> GroupState:
    """The state after the event. Raises `AssertionError` for an event that cannot happen in
    `state`."""
    assert (state, event) in TRANSITIONS, f"in {state} it cannot happen that {event}"
    return TRANSITIONS[state, event]
