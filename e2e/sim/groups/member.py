"""A member of a consumer group: it joins, reads, commits and sends heartbeats until it leaves."""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from chiplog_wire.protocol.errors import ErrorCode
from e2e.sim.groups.assignments import Place, assigned, assignment, in_ranges, subscription
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.groups.notes import GroupNotes, place_of
from e2e.sim.groups.wire import GroupWire, Identity
from e2e.sim.wire import UNREACHED, TopicPartition

ELSEWHERE: Final = frozenset(
    {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.request_timed_out}
)
"""Errors after which a client has to find the coordinator again."""
LATER: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.unstable_offset_commit})
"""Errors after which a client sends the same request again, a little later."""
AGAIN: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})
"""Errors after which a member has to join again with its present member id."""
UNKNOWN: Final = ErrorCode.unknown_member_id
FENCED: Final = ErrorCode.fenced_instance_id
NOT_A_MEMBER: Final = frozenset({UNKNOWN, FENCED})
"""Errors after which a client is no longer a member."""
REFUSED_FOR_GOOD: Final = frozenset({*AGAIN, *NOT_A_MEMBER})
"""Errors of a commit that is certainly not stored."""
UNSETTLED: Final = frozenset({*ELSEWHERE, *LATER, *AGAIN, *NOT_A_MEMBER})
"""Errors that members may get without a fault of the brokers."""
OF_TOPICS: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
"""Errors after which a client has to refresh its metadata of topics."""
METADATA_AGE_S: Final = 15.0
ASIDE_SHARE: Final = 0.3
"""Share of the commits that are sent in the background, beside heartbeats."""
BACK_OFF_S: Final = 0.5


class GroupClient:
    """The base of members, loners and watchers: it finds the coordinator, fetches and commits."""

    def __init__(
        self, name: str, wire: GroupWire, chance: random.Random, notes: GroupNotes
    ) -> None:
        self.name = name
        self.group = wire.group
        self.wire = wire
        self.chance = chance
        self.notes = notes
        self.at: tuple[str, int] | None = None
        """Address of the coordinator as last found; None if it has to be found."""

    async def back_off(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.05, BACK_OFF_S))

    async def find_coordinator(self) -> bool:
        """Find the coordinator; False if a broker answered with an error. Raises `UNREACHED`."""
        error, at = await self.wire.coordinator()
        if error:
            self.note_error(error)
            return False
        self.at = at
        return True

    def note_error(self, error: int) -> None:
        """Count an error; some mean that the coordinator has to be found again."""
        code = ErrorCode(error)
        self.notes.error(code.name)
        if code in ELSEWHERE:
            self.at = None

    def partitions(self, topics: tuple[str, ...]) -> list[TopicPartition]:
        """All partitions of these topics in this client's metadata."""
        return sorted(one for one in self.wire.wire.partitions if one.topic in topics)

    async def fetch_committed(
        self, at: tuple[str, int], partitions: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]] | None:
        """The group's committed (offset, mark) of each partition, asked of the broker at `at`.

        None for an error. Raises one of `UNREACHED`.
        """
        began_s, asks_by_id = self.notes.now_s(), self.wire.asks_by_id
        error, found = await self.wire.committed(at, partitions)
        if error:
            self.note_error(error)
            if error in OF_TOPICS:
                await self.wire.wire.learn()  # the topic may have been created again
            return None
        for one, (offset, mark) in sorted(found.items()):
            label = str(one) if asks_by_id else ""
            place = place_of(one.topic, one.number)
            self.notes.found(self.group, began_s, place, offset, mark, label)
        return found

    async def send_commit(
        self, at: tuple[str, int], who: Identity, offsets: Mapping[TopicPartition, int]
    ) -> int:
        """Commit offsets under a new mark; returns the first error code, 0 if all are stored.

        Raises one of `UNREACHED`.
        """
        mark = self.notes.new_mark(self.name)
        sent = {
            one: self.notes.commit(
                self.group,
                who,
                place_of(one.topic, one.number),
                offset,
                mark,
                str(one) if self.wire.commits_by_id else "",
            )
            for one, offset in offsets.items()
        }
        errors = await self.wire.commit(at, who, offsets, mark)
        for one, error in errors.items():
            if not error:
                sent[one].acked_s = self.notes.now_s()
            elif error in REFUSED_FOR_GOOD or error in OF_TOPICS:
                sent[one].is_refused = True
        return next(filter(None, errors.values()), 0)


class Member(GroupClient):
    """A member of a group, which also assigns the partitions while it is the group's leader."""

    def __init__(
        self,
        name: str,
        instance: str | None,
        wire: GroupWire,
        chance: random.Random,
        notes: GroupNotes,
        habits: GroupHabits,
    ) -> None:
        super().__init__(name, wire, chance, notes)
        self.habits = habits
        self.who = Identity(instance=instance)
        self.is_in = False
        """Whether it has an assignment in the present generation, by the answers that it got."""
        self.is_leader = False
        self.leader_id = ""
        """Member id of the generation's leader, from the last JoinGroup response."""
        self.is_leaving = False
        self.is_fenced = False
        """Whether another process took over this static member's `group.instance.id`."""
        self.is_to_dawdle = False
        """Whether its next round shall take longer than its session timeout."""
        self.positions: dict[TopicPartition, int] = {}
        self.given: frozenset[Place] = frozenset()
        """Assigned partitions whose committed offsets it has still to fetch."""
        self.committed_s = -1.0
        """When it last began a successful commit of all its partitions."""
        self.has_skipped = False
        """Whether it returned as the leader and keeps the assignment (`skip_assignment`)."""
        self.known: list[TopicPartition] = []
        """The topics' partitions when it became the leader; a change leads to a rebalance."""
        self._refreshed_s = -1.0
        """When it last refreshed its metadata."""
        self._commit_s = 0.0
        """When its next commit is due."""
        self._background_commits: set[asyncio.Task[None]] = set()
        """Commits in the background."""

    async def run(self) -> None:
        """Take part in the group until it is to leave or is fenced; then leave."""
        while not self.is_fenced and not self.is_leaving:
            try:
                await self._step()
            except UNREACHED as error:
                self.notes.error(type(error).__name__)
                self.at = None
                await self.back_off()
        if not self.is_fenced and self.who.member_id and self.at is not None:
            try:
                await self.wire.leave(self.at, self.who)
            except UNREACHED as error:
                self.notes.error(type(error).__name__)
        self.is_in = False

    async def _step(self) -> None:
        """Do the next thing: find the coordinator, join, fetch committed offsets, or work."""
        if self.at is None:
            if not await self.find_coordinator():
                await self.back_off()
        elif not self.is_in:
            await self._join(self.at)
        elif self.given:
            await self._fetch_positions(self.at)
        else:
            await self._work(self.at)

    # -- becoming a member

    async def _join(self, at: tuple[str, int]) -> None:
        """Send a JoinGroup, then a SyncGroup, with assignments for all if it is the leader."""
        habits, began_s = self.habits, self.notes.now_s()
        subscribed = subscription(habits.topics)
        answer = await self.wire.join(
            at, self.who, subscribed, habits.session_s, habits.rebalance_s
        )
        error = int(answer.error_code)
        if error == ErrorCode.member_id_required:
            self.who = self.who._replace(member_id=str(answer.member_id))
        elif error:
            await self._refused(error)
        else:
            generation = int(answer.generation_id)
            self.who = self.who._replace(member_id=str(answer.member_id), generation=generation)
            self.notes.joined(self.group, began_s, self.who, str(answer.leader))
            self.leader_id = str(answer.leader)
            self.is_leader = self.leader_id == self.who.member_id
            self.has_skipped = self.is_leader and getattr(answer, "skip_assignment", False)
            if self.is_leader:
                await self._refresh_metadata()
                self.known = self.partitions(self.habits.topics)
            is_to_assign = self.is_leader and not self.has_skipped
            ids = [str(one.member_id) for one in answer.members]
            await self._sync(at, self._shares(ids) if is_to_assign else {})

    def _shares(self, ids: list[str]) -> dict[str, bytes]:
        """Member id -> encoded assignment of `known` partitions."""
        places = [(one.topic, one.number) for one in self.known]
        return {one: assignment(given) for one, given in in_ranges(ids, places).items()}

    async def _refresh_metadata(self) -> None:
        """Refresh the metadata of topics."""
        await self.wire.wire.learn()
        self._refreshed_s = self.notes.now_s()

    async def _sync(self, at: tuple[str, int], shares: Mapping[str, bytes]) -> None:
        """Send a SyncGroup, and take the assignment in its answer."""
        error, given = await self.wire.sync(at, self.who, shares, self.habits.rebalance_s)
        if error:
            await self._refused(error)
            return
        self.given = assigned(given)
        self.notes.synced(self.group, self.who, self.given)
        self.is_in = True
        self.committed_s = -1.0
        self.positions = {}

    async def _fetch_positions(self, at: tuple[str, int]) -> None:
        """Fetch the committed offsets of the assigned partitions, and begin to read from there."""
        mine = self._mine(self.given)
        if mine is None:
            await self._refresh_metadata()
            mine = self._mine(self.given)
        found = await self.fetch_committed(at, mine) if mine is not None else None
        if found is not None:
            self.positions = {one: max(offset, 0) for one, (offset, _) in found.items()}
            self.given = frozenset()
            return
        await self.back_off()
        # It sends heartbeats while it waits, as the heartbeat thread of Java's consumer does.
        if self.at is not None:
            await self._beat(self.at)

    def _mine(self, places: frozenset[Place]) -> list[TopicPartition] | None:
        """These partitions with their topic ids; None if one is missing in the metadata."""
        known = {(one.topic, one.number): one for one in self.partitions(self.habits.topics)}
        if not places <= known.keys():
            return None
        return [known[one] for one in sorted(places)]

    # -- being one

    async def _work(self, at: tuple[str, int]) -> None:
        """One round of a member: wait, commit if it is due, send a heartbeat, check partitions."""
        habits, chance = self.habits, self.chance
        await asyncio.sleep(habits.heartbeat_s * chance.uniform(0.7, 1.1))
        is_slow = self.is_to_dawdle or chance.random() < habits.slow_share
        if is_slow:
            self.is_to_dawdle = False
            await asyncio.sleep(habits.session_s * chance.uniform(1.1, 2.0))
        now_s = self.notes.now_s()
        if now_s >= self._commit_s or (is_slow and chance.random() < 0.7):
            self._commit_s = now_s + habits.commit_s * chance.uniform(0.5, 1.5)
            await self._advance_positions()
            if chance.random() < ASIDE_SHARE:
                task = asyncio.ensure_future(self._commit_in_background(at))
                self._background_commits.add(task)
                task.add_done_callback(self._background_commits.discard)
            else:
                await self._commit(at)
        if self.is_in and not self.is_leaving:
            await self._beat(at)
        if self.is_in and self.is_leader:
            await self._check_partitions()

    async def _advance_positions(self) -> None:
        """Advance the positions: to the high watermarks, or by random steps."""
        wire, chance = self.wire.wire, self.chance
        if not self.habits.is_reading:
            for one in self.positions:
                self.positions[one] += chance.randint(0, 3)
            return
        for one in sorted(self.positions):
            at = wire.leader(one)
            try:
                error, end = await wire.offset(at, one) if at is not None else (-1, -1)
                if error:
                    await wire.learn()
            except UNREACHED as unreached:
                self.notes.error(type(unreached).__name__)
                return  # the next round continues with the other partitions
            if not error and one in self.positions:
                self.positions[one] = max(end, self.positions[one])

    async def _commit_in_background(self, at: tuple[str, int]) -> None:
        """Commit in the background; an unreachable coordinator is only counted."""
        try:
            await self._commit(at)
        except UNREACHED as error:
            self.notes.error(type(error).__name__)

    async def _commit(self, at: tuple[str, int]) -> None:
        """Commit the present positions, and react to the answer.

        An answer to an earlier member id or generation than the present one is ignored.
        """
        offsets, who, began_s = dict(self.positions), self.who, self.notes.now_s()
        if not offsets:
            return
        error = await self.send_commit(at, who, offsets)
        if error in OF_TOPICS:
            self.notes.error(ErrorCode(error).name)
            self._refreshed_s = -METADATA_AGE_S
            if who == self.who and not self.is_leader:
                await self._forget_positions()
        elif error and who == self.who:
            await self._refused(error)
        elif not error and who == self.who and offsets.keys() == self.positions.keys():
            self.committed_s = began_s

    async def _forget_positions(self) -> None:
        """Fetch committed offsets again, because topics may have been created again.

        The leader does not need this: it starts a rebalance when topics change.
        """
        self.given = frozenset((one.topic, one.number) for one in self.positions)
        self.positions = {}
        await self.wire.wire.learn()

    async def _beat(self, at: tuple[str, int]) -> None:
        """Send a heartbeat, and note it if a coordinator that had loaded the group accepted it."""
        who, began_s = self.who, self.notes.now_s()
        serving = self.notes.serving(at[0], self.group)
        error = await self.wire.heartbeat(at, who)
        if error:
            if who == self.who:
                await self._refused(error)
        elif serving is not None and self.notes.serving(at[0], self.group) is serving:
            # A coordinator that is still loading the group accepts heartbeats of anybody.
            self.notes.beat(self.group, began_s, who)

    async def _check_partitions(self) -> None:
        """As the leader, join again if the topics' partitions changed since it became leader."""
        if self.notes.now_s() - self._refreshed_s < METADATA_AGE_S:
            return
        await self._refresh_metadata()
        if self.partitions(self.habits.topics) != self.known:
            self.is_in = False

    async def _refused(self, error: int) -> None:
        """React to an error code: join again, with or without the member id, stop, or wait.

        An error that no member should get is noted as a problem.
        """
        self.note_error(error)
        code = ErrorCode(error)
        if code in AGAIN:
            self.is_in = False
        elif code is UNKNOWN:
            self.is_in = False
            self.who = Identity(instance=self.who.instance)
        elif code is FENCED:
            self.is_fenced, self.is_in = True, False
        else:
            if code not in UNSETTLED:
                what = f"{self.name} of {self.group} got the error {code.name}"
                self.notes.problems.append(f"{what}, t={self.notes.now_s():.3f}")
            await self.back_off()


class Loner(GroupClient):
    """A consumer that assigns its partitions itself and only commits, without joining its group."""

    def __init__(
        self,
        name: str,
        wire: GroupWire,
        chance: random.Random,
        notes: GroupNotes,
        habits: GroupHabits,
    ) -> None:
        super().__init__(name, wire, chance, notes)
        self.habits = habits
        self.committed_s = -1.0
        self.is_leaving = False
        self._offset = 0

    async def run(self) -> None:
        """Commit and fetch committed offsets until `is_leaving`."""
        while not self.is_leaving:
            try:
                await self._step()
            except UNREACHED as error:
                self.notes.error(type(error).__name__)
                self.at = None
                await self.back_off()

    async def _step(self) -> None:
        """Find the coordinator, or commit a higher offset and fetch it again."""
        if self.at is None:
            await self.wire.wire.learn()
            if not await self.find_coordinator():
                await self.back_off()
            return
        await asyncio.sleep(self.habits.commit_s * self.chance.uniform(0.5, 1.5))
        mine = self.partitions(self.habits.topics[:1])[:1]
        if not mine:
            await self.wire.wire.learn()
            return
        self._offset += self.chance.randint(0, 3)
        began_s = self.notes.now_s()
        error = await self.send_commit(self.at, Identity(), dict.fromkeys(mine, self._offset))
        if error in OF_TOPICS:
            await self.wire.wire.learn()
        elif error:
            self.note_error(error)
            await self.back_off()
        else:
            self.committed_s = began_s
            await self.fetch_committed(self.at, mine)
