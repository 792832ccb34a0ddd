"""The notes that members of all groups write into the history."""

from collections.abc import Callable
from typing import Final

from e2e.sim.clients import Notebook
from e2e.sim.groups.history import Beat, Commit, Found, GroupHistory, Joined, Removal, Synced
from e2e.sim.groups.wire import Identity

FIXED: Final = "fixed-"
"""Prefix of every `group.instance.id`."""
UNIQUE_CHARS: Final = 37
"""Length of what the coordinator appends to a name to make a member id: a hyphen and a UUID."""


def who_is(member_id: str) -> str:
    """A member's lasting name: the `group.instance.id` of a static member, else the member id.

    A static member's id begins with its `group.instance.id` and changes when it restarts.
    """
    return member_id[:-UNIQUE_CHARS] if member_id.startswith(FIXED) else member_id


def place_of(topic: str, number: int) -> str:
    """The name of a partition without the id of its topic, as in "orders-0"."""
    return f"{topic}-{number}"


class GroupNotes:
    """Adds to the history of groups of one simulation, with the present time.

    `began_s` is when the request was sent; the time of the answer is now.
    """

    def __init__(self, notebook: Notebook, serving: Callable[[str, str], object | None]) -> None:
        """`serving` returns what coordinates a group at a host; None if nothing does there."""
        self.history: GroupHistory = notebook.history.groups
        self.now_s = notebook.now_s
        self.error = notebook.error
        self.is_deleted = notebook.is_deleted
        self.serving = serving
        self.problems = notebook.problems
        self._marks = 0

    def new_mark(self, name: str) -> str:
        """A mark for one commit, unique in the run."""
        self._marks += 1
        return f"{name}/{self._marks}"

    def joined(self, group: str, began_s: float, who: Identity, leader: str) -> None:
        """Note a JoinGroup that is answered now; `leader` is the member id of the leader."""
        one = Joined(
            began_s=began_s,
            at_s=self.now_s(),
            group=group,
            generation=who.generation,
            who=who_is(who.member_id),
            member_id=who.member_id,
            leader=who_is(leader),
        )
        self.history.joined.append(one)

    def synced(self, group: str, who: Identity, places: frozenset[tuple[str, int]]) -> None:
        """Note a SyncGroup that is answered now with these partitions, as (topic, number)."""
        one = Synced(
            at_s=self.now_s(),
            group=group,
            generation=who.generation,
            who=who_is(who.member_id),
            partitions=frozenset(place_of(*place) for place in places),
        )
        self.history.synced.append(one)

    def beat(self, group: str, began_s: float, who: Identity) -> None:
        """Note a heartbeat that is accepted now."""
        one = Beat(
            began_s=began_s,
            at_s=self.now_s(),
            group=group,
            generation=who.generation,
            who=who_is(who.member_id),
            member_id=who.member_id,
        )
        self.history.beats.append(one)

    def commit(
        self, group: str, who: Identity, place: str, offset: int, mark: str, label: str
    ) -> Commit:
        """Note a commit that is sent now; the caller adds its answer to the returned object."""
        one = Commit(
            began_s=self.now_s(),
            group=group,
            partition=place,
            offset=offset,
            mark=mark,
            who=who_is(who.member_id),
            member_id=who.member_id,
            generation=who.generation,
            label=label,
        )
        self.history.commits.append(one)
        return one

    def found(
        self, group: str, began_s: float, place: str, offset: int, mark: str, label: str
    ) -> None:
        """Note a committed offset that is answered now; -1 for none."""
        one = Found(began_s, self.now_s(), group, place, offset, mark, label)
        self.history.found.append(one)

    def removal(self, group: str, partition: str = "") -> Removal:
        """Note a removal that is requested now; the caller adds its answer to the object.

        An empty `partition` stands for the whole group.
        """
        one = Removal(began_s=self.now_s(), group=group, partition=partition)
        self.history.removals.append(one)
        return one
