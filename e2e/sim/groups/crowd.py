"""All consumer groups of a simulation: their members, and clients that watch them."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from e2e.sim.groups.habits import GroupHabits
from e2e.sim.groups.member import GroupClient, Loner, Member
from e2e.sim.groups.notes import FIXED, GroupNotes, place_of
from e2e.sim.groups.replay import differences, serving
from e2e.sim.groups.wire import GroupWire
from e2e.sim.loop import Process
from e2e.sim.wire import PORT, UNREACHED
from e2e.sim.world import World

BY_ID_SHARE = 0.5
"""Share of watchers that ask with topic ids instead of names."""
ANYWHERE_SHARE = 0.4
"""Share of a watcher's requests that go to a random broker instead of the coordinator."""


@dataclass(slots=True)
class Seat:
    """A member's place in a group; its process is started again when it has ended."""

    group: str
    name: str
    instance: str | None
    starts: int = 0
    member: Member | None = None
    process: Process | None = None
    is_wanted: bool = True
    """Whether the place shall have a member."""


def is_led_by_nobody(members: Sequence[Member]) -> bool:
    """Whether the leader is a static member that returned with a JoinGroup before version 9.

    Such a response names the leader's former member id, so the member does not know that it leads.
    No member checks for new partitions until the next rebalance then; KIP-814 fixed this.
    """
    ids = {one.who.member_id for one in members}
    return not any(one.is_leader for one in members) and any(
        one.who.instance is not None and one.leader_id not in ids for one in members
    )


def is_led_by_one_who_was_away(members: Sequence[Member], places: Sequence[str]) -> bool:
    """Whether a static leader returned when the topics already had their present `places`.

    It keeps the generation's assignment, which may lack partitions that were created while it was
    away, and assigns again only when it sees another change (docs/groups.md).
    """
    return any(
        one.is_leader
        and one.has_skipped
        and sorted(place_of(known.topic, known.number) for known in one.known) == places
        for one in members
    )


class Crowd:
    """All members of all groups, each a process on its own host, and their watchers."""

    def __init__(self, world: World, habits: GroupHabits) -> None:
        self.world = world
        self.habits = habits
        self.chance = world.own_chance()
        self.notes = GroupNotes(world.notebook, partial(serving, world))
        self.seats: list[Seat] = []
        self.loner: Loner | None = None
        """A consumer that commits without being a member of a group."""
        self.watchers: dict[str, GroupClient] = {}
        self.is_over = False
        self._number = 0
        if habits.retention_minutes:
            self.notes.history.retention_s = habits.retention_minutes * 60.0
        for index in range(1, habits.groups + 1):
            for _ in range(habits.members):
                self.add_seat(f"group-{index}")

    @property
    def groups(self) -> list[str]:
        """Names of the groups with members, without the loner's group."""
        return sorted({one.group for one in self.seats})

    def add_seat(self, group: str) -> Seat:
        """Add a place for a member, without a process."""
        self._number += 1
        is_static = self.chance.random() < self.habits.static_share
        name = f"m{self._number}"
        seat = Seat(group, f"{group}-{name}", f"{FIXED}{name}" if is_static else None)
        self.seats.append(seat)
        return seat

    def start(self) -> None:
        """Start the members, the loner, and the watcher."""
        for one in self.seats:
            self.sit(one)
        if self.habits.has_loner:
            wire = self._wire("loner", "loner", is_static=False)
            self.loner = Loner("loner", wire, self._own_chance(), self.notes, self.habits)
            self.world.as_client("loner", self.loner.run())
        self.world.as_client("watcher", self._watch())
        self.world.keep(self._compare())

    def sit(self, seat: Seat) -> None:
        """Start a member's process for this seat; one that runs already is not stopped."""
        seat.starts += 1
        wire = self._wire(seat.group, seat.name, is_static=seat.instance is not None)
        seat.member = Member(
            seat.name, seat.instance, wire, self._own_chance(), self.notes, self.habits
        )
        seat.process = self.world.new_client(f"{seat.name}#{seat.starts}", f"client-{seat.name}")
        task = seat.process.spawn(seat.member.run(), seat.process.name)
        task.add_done_callback(partial(self._ended, seat, seat.member))

    def _ended(self, seat: Seat, member: Member, task: "asyncio.Task[Any]") -> None:
        """Note that a member's task ended, unless a newer one has its seat."""
        self.world.client_ended(task)
        if seat.member is member:
            seat.member = None

    def _wire(self, group: str, name: str, *, is_static: bool) -> GroupWire:
        return GroupWire(
            group,
            self.world.bootstrap,
            self._own_chance(),
            name,
            is_static=is_static,
            is_of_any_age=self.habits.are_of_all_ages,
        )

    def _own_chance(self) -> random.Random:
        return random.Random(self.chance.getrandbits(64))  # noqa: S311 - not for secrets

    # -- what goes wrong with members

    def somebody(self) -> Seat | None:
        """A random seat with a running member; None if there is none."""
        there = [one for one in self.seats if one.member is not None and one.process is not None]
        return self.chance.choice(there) if there else None

    def kill(self, seat: Seat) -> None:
        """Kill the member's process: it does not leave its group, only its connections break."""
        if seat.process is not None:
            seat.process.is_alive = False
            self.world.network.ended(seat.process)
        seat.process = seat.member = None

    def leave(self, seat: Seat) -> None:
        """The member leaves its group and ends."""
        if seat.member is not None:
            seat.member.is_leaving = True

    def freeze(self, seat: Seat) -> None:
        if seat.process is not None:
            seat.process.is_paused = True

    def thaw(self, seat: Seat) -> None:
        if seat.process is not None and seat.process.is_paused:
            self.world.loop.resume(seat.process)

    # -- in the end

    def heal(self) -> None:
        """Restart all members that are away."""
        for one in self.seats:
            self.thaw(one)
            if one.is_wanted and one.member is None:
                self.sit(one)

    def unwell_groups(self, since_s: float) -> list[tuple[str, str]]:
        """(group, reason) of each group that has not recovered since that time; empty if all did.

        Members that ended are started again.
        """
        whys = ((group, self._why_unwell(group, since_s)) for group in self.groups)
        found = [(group, why) for group, why in whys if why]
        can_commit = self._used_places(self.habits.topics[:1])
        if self.loner is not None and self.loner.committed_s < since_s and can_commit:
            found.append(
                (
                    "loner",
                    f"the consumer that assigns itself has committed nothing since {since_s:.3f} s",
                )
            )
        return found

    def _why_unwell(self, group: str, since_s: float) -> str:
        """Why a group has not recovered: a member is missing, or has not committed since then, or
        the partitions are not all read; empty if it has."""
        seats = [one for one in self.seats if one.group == group and one.is_wanted]
        members = [one.member for one in seats if one.member is not None]
        for seat in seats:
            if seat.member is None:
                self.sit(seat)  # it had been fenced or had left
        if len(members) < len(seats):
            return f"only {len(members)} of {len(seats)} members are running"
        for one in members:
            if not one.is_in:
                return f"{one.name} is in no generation"
            if one.positions and one.committed_s < since_s:
                return f"{one.name} has committed nothing"
        generations = {one.who.generation for one in members}
        if len(generations) > 1:
            return f"members are in {sorted(generations)}"
        owned = sorted(
            place_of(one.topic, one.number) for member in members for one in member.positions
        )
        places = self._used_places(self.habits.topics)
        is_at_its_limit = is_led_by_nobody(members) or is_led_by_one_who_was_away(members, places)
        if members and owned != places and not is_at_its_limit:
            return f"members are assigned {owned}, but should be assigned {places}"
        return ""

    def _used_places(self, topics: Sequence[str]) -> list[str]:
        """The partitions of these topics that clients use, as "topic-number", in order."""
        history = self.world.notebook.history
        return sorted(
            place_of(one.topic, one.number)
            for one in self.world.used_partitions
            if one.topic in topics and str(one) not in history.deleted
        )

    def stop(self) -> None:
        """Let all members leave, and the watcher stop."""
        self.is_over = True
        if self.loner is not None:
            self.loner.is_leaving = True
        for one in self.seats:
            one.is_wanted = False
            self.leave(one)

    async def audit(self) -> None:
        """Fetch each group's committed offsets at the end, with retries until it succeeds."""
        for group in [*self.groups, *(["loner"] if self.loner is not None else [])]:
            watcher = self._watcher(group)
            while not await self._try_to_fetch(watcher, is_last=True):
                await watcher.back_off()

    # -- who watches

    async def _watch(self) -> None:
        """Fetch the committed offsets of a random group from time to time."""
        names = [*self.groups, *(["loner"] if self.loner is not None else [])]
        while not self.is_over:
            await asyncio.sleep(self.habits.watch_s * self.chance.uniform(0.5, 1.5))
            await self._try_to_fetch(self._watcher(self.chance.choice(names)), is_last=False)

    def _watcher(self, group: str) -> GroupClient:
        if group not in self.watchers:
            self.watchers[group] = self.new_watcher(group)
        return self.watchers[group]

    def new_watcher(self, group: str) -> GroupClient:
        """A client that asks about this group without being a member."""
        wire = self._wire(group, "watcher", is_static=False)
        if self.chance.random() < BY_ID_SHARE:
            wire.ask_by_id()
        return GroupClient("watcher", wire, self._own_chance(), self.notes)

    async def _try_to_fetch(self, watcher: GroupClient, *, is_last: bool) -> bool:
        """Let a watcher fetch its group's committed offsets; False if that failed.

        With `is_last` it asks only the coordinator, with new metadata.
        """
        try:
            partitions = watcher.partitions(self.habits.topics)
            if not partitions or is_last:
                await watcher.wire.wire.learn()
                partitions = watcher.partitions(self.habits.topics)
            if watcher.at is None and not await watcher.find_coordinator():
                return False
            at = watcher.at
            if not is_last and watcher.chance.random() < ANYWHERE_SHARE:
                at = watcher.chance.choice(self.world.bootstrap), PORT
            if at is None:
                return False
            found = await watcher.fetch_committed(at, partitions)
        except UNREACHED as error:
            self.notes.error(type(error).__name__)
            watcher.at = None
            return False
        return found is not None

    async def _compare(self) -> None:
        """Call `compare` from time to time."""
        while not self.is_over:
            await asyncio.sleep(self.habits.compare_s * self.chance.uniform(0.5, 1.5))
            self.compare()

    def compare(self) -> None:
        """Compare the coordinators' state in memory with their logs, and note differences."""
        now_s = self.notes.now_s()
        self.notes.history.unlike += [f"{one}, t={now_s:.3f}" for one in differences(self.world)]
