"""One consumer of a group: it joins, reads, commits and sends heartbeats, until it leaves."""

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
"""The coordinator is to be found again."""
LATER: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.unstable_offset_commit})
AGAIN: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})
"""It is to join again, under the id that it has."""
UNKNOWN: Final = ErrorCode.unknown_member_id
FENCED: Final = ErrorCode.fenced_instance_id
NOT_A_MEMBER: Final = frozenset({UNKNOWN, FENCED})
"""It is no longer a member."""
REFUSED_FOR_GOOD: Final = frozenset({*AGAIN, *NOT_A_MEMBER})
"""A commit that is answered so does not count, and never will."""
UNSETTLED: Final = frozenset({*ELSEWHERE, *LATER, *AGAIN, *NOT_A_MEMBER})
"""Errors that members get where nothing is wrong."""
OF_TOPICS: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
METADATA_AGE_S: Final = 15.0
ASIDE_SHARE: Final = 0.3
"""Of the commits, those that a member does not wait for."""
BACK_OFF_S: Final = 0.5


class GroupClient:
    """What members, loners and watchers share: they find the coordinator."""

    def __init__(
        self, name: str, wire: GroupWire, chance: random.Random, notes: GroupNotes
    ) -> None:
        self.name = name
        self.group = wire.group
        self.wire = wire
        self.chance = chance
        self.notes = notes
        self.at: tuple[str, int] | None = None
        """Where the coordinator is, as far as it knows."""

    async def back_off(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.05, BACK_OFF_S))

    async def find_coordinator(self) -> bool:
        """Whether it was found. Raises one of `UNREACHED`."""
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
        """All of these topics, of which it knows."""
        return sorted(one for one in self.wire.wire.partitions if one.topic in topics)

    async def fetch_committed(
        self, at: tuple[str, int], partitions: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]] | None:
        """None where the answer was an error. Raises one of `UNREACHED`."""
        began_s, asks_by_id = self.notes.now_s(), self.wire.asks_by_id
        error, found = await self.wire.committed(at, partitions)
        if error:
            self.note_error(error)
            if error in OF_TOPICS:
                await self.wire.wire.learn()  # the name may be another topic's by now
            return None
        for one, (offset, mark) in sorted(found.items()):
            label = str(one) if asks_by_id else ""
            place = place_of(one.topic, one.number)
            self.notes.found(self.group, began_s, place, offset, mark, label)
        return found

    async def send_commit(
        self, at: tuple[str, int], who: Identity, offsets: Mapping[TopicPartition, int]
    ) -> int:
        """The first error; where all was stored, 0. Raises one of `UNREACHED`."""
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
    """A member with partitions that the leader gives it; where it leads, it gives them."""

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
        """Whether it has an assignment, as far as it knows."""
        self.is_leader = False
        self.leader_id = ""
        """The generation's leader, as it was answered."""
        self.is_leaving = False
        self.is_fenced = False
        """Whether another one is this static member now: it is over for this one."""
        self.is_to_dawdle = False
        """Whether it is to take longer than its session lasts, once."""
        self.is_to_reassign = False
        self.positions: dict[TopicPartition, int] = {}
        self.given: frozenset[Place] = frozenset()
        """What it has been assigned without knowing yet where to begin."""
        self.committed_s = -1.0
        """When everything it reads was committed for the last time."""
        self.has_skipped = False
        """Whether it came back as the leader of a generation that has its assignment."""
        self.known: list[TopicPartition] = []
        """What there was when it gave out partitions as the leader, or when it came back as one."""
        self._learned_s = -1.0
        self._commit_s = 0.0
        self._aside: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it has left, or is fenced."""
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
        if self.at is None:
            if not await self.find_coordinator():
                await self.back_off()
        elif not self.is_in:
            await self._join(self.at)
        elif self.given:
            await self._begin(self.at)
        else:
            await self._work(self.at)

    # -- becoming a member

    async def _join(self, at: tuple[str, int]) -> None:
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
                await self._learn()
                self.known = self.partitions(self.habits.topics)
            is_to_assign = self.is_leader and not self.has_skipped
            ids = [str(one.member_id) for one in answer.members]
            await self._sync(at, self._shares(ids) if is_to_assign else {})

    def _shares(self, ids: list[str]) -> dict[str, bytes]:
        places = [(one.topic, one.number) for one in self.known]
        return {one: assignment(given) for one, given in in_ranges(ids, places).items()}

    async def _learn(self) -> None:
        await self.wire.wire.learn()
        self._learned_s = self.notes.now_s()

    async def _sync(self, at: tuple[str, int], shares: Mapping[str, bytes]) -> None:
        error, given = await self.wire.sync(at, self.who, shares, self.habits.rebalance_s)
        if error:
            await self._refused(error)
            return
        self.given = assigned(given)
        self.notes.synced(self.group, self.who, self.given)
        self.is_in = True
        self.committed_s = -1.0
        self.positions = {}

    async def _begin(self, at: tuple[str, int]) -> None:
        """Ask where the group has come to, in all that this one is to read."""
        mine = self._mine(self.given)
        if mine is None:
            await self._learn()
            mine = self._mine(self.given)
        found = await self.fetch_committed(at, mine) if mine is not None else None
        if found is not None:
            self.positions = {one: max(offset, 0) for one, (offset, _) in found.items()}
            self.given = frozenset()
            return
        await self.back_off()
        # While it waits for the coordinator it sends heartbeats, as Java's second thread does.
        if self.at is not None:
            await self._beat(self.at)

    def _mine(self, places: frozenset[Place]) -> list[TopicPartition] | None:
        """None where it does not know all of them."""
        known = {(one.topic, one.number): one for one in self.partitions(self.habits.topics)}
        if not places <= known.keys():
            return None
        return [known[one] for one in sorted(places)]

    # -- being one

    async def _work(self, at: tuple[str, int]) -> None:
        habits, chance = self.habits, self.chance
        await asyncio.sleep(habits.heartbeat_s * chance.uniform(0.7, 1.1))
        is_slow = self.is_to_dawdle or chance.random() < habits.slow_share
        if is_slow:
            self.is_to_dawdle = False
            await asyncio.sleep(habits.session_s * chance.uniform(1.1, 2.0))
        now_s = self.notes.now_s()
        if now_s >= self._commit_s or (is_slow and chance.random() < 0.7):
            self._commit_s = now_s + habits.commit_s * chance.uniform(0.5, 1.5)
            await self._proceed()
            if chance.random() < ASIDE_SHARE:
                task = asyncio.ensure_future(self._commit_aside(at))
                self._aside.add(task)
                task.add_done_callback(self._aside.discard)
            else:
                await self._commit(at)
        if self.is_in and not self.is_leaving:
            await self._beat(at)
        if self.is_in and self.is_leader:
            await self._check_partitions()

    async def _proceed(self) -> None:
        """Read on."""
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
                return  # of the rest it is to read later
            if not error and one in self.positions:
                self.positions[one] = max(end, self.positions[one])

    async def _commit_aside(self, at: tuple[str, int]) -> None:
        try:
            await self._commit(at)
        except UNREACHED as error:
            self.notes.error(type(error).__name__)

    async def _commit(self, at: tuple[str, int]) -> None:
        offsets, who, began_s = dict(self.positions), self.who, self.notes.now_s()
        if not offsets:
            return
        error = await self.send_commit(at, who, offsets)
        if error in OF_TOPICS:
            self.notes.error(ErrorCode(error).name)
            self._learned_s = -METADATA_AGE_S
            if who == self.who and not self.is_leader:
                await self._forget_positions()
        elif error and who == self.who:
            await self._refused(error)
        elif not error and who == self.who and offsets.keys() == self.positions.keys():
            self.committed_s = began_s

    async def _forget_positions(self) -> None:
        """Topics of these names may be others by now; the leader assigns again where they are."""
        self.given = frozenset((one.topic, one.number) for one in self.positions)
        self.positions = {}
        await self.wire.wire.learn()

    async def _beat(self, at: tuple[str, int]) -> None:
        who, began_s = self.who, self.notes.now_s()
        serving = self.notes.serving(at[0], self.group)
        error = await self.wire.heartbeat(at, who)
        if error:
            if who == self.who:
                await self._refused(error)
        elif serving is not None and self.notes.serving(at[0], self.group) is serving:
            # Who is loading tells everybody that all is well.
            self.notes.beat(self.group, began_s, who)

    async def _check_partitions(self) -> None:
        """A leader assigns again where there are others than when it began to lead."""
        if self.notes.now_s() - self._learned_s < METADATA_AGE_S:
            return
        await self._learn()
        if self.partitions(self.habits.topics) != self.known:
            self.is_in = False

    async def _refused(self, error: int) -> None:
        """As its answer says: join again, under another id, at another coordinator, or wait."""
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
                what = f"{self.name} of {self.group} was told {code.name}"
                self.notes.problems.append(f"{what}, t={self.notes.now_s():.3f}")
            await self.back_off()


class Loner(GroupClient):
    """A consumer that assigns its partitions itself and only commits: it is in no generation."""

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
        """Until it is stopped."""
        while not self.is_leaving:
            try:
                await self._step()
            except UNREACHED as error:
                self.notes.error(type(error).__name__)
                self.at = None
                await self.back_off()

    async def _step(self) -> None:
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
