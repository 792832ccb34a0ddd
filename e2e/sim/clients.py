"""Producers and consumers, as a careful user's are, writing down what they did and saw.

A producer has one batch on its way to each partition and sends it again until it is answered:
with idempotence that may never make two of it. A consumer reads a partition from where it is.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import Codec
from chiplog_wire.records.reader import Header
from chiplog_wire.records.writer import NOT_IDEMPOTENT, BatchOptions, NewRecord, build_batch
from chiplog_wire.records.writer import Producer as ProducerState
from e2e.sim.history import Event, History, Kind, SequenceRefused
from e2e.sim.wire import (
    EARLIEST,
    MAX_BYTES,
    NAME_HEADER,
    UNREACHED,
    Fetched,
    TopicPartition,
    Wire,
)

UNANSWERED: Final = -2
DUPLICATE: Final = ErrorCode.duplicate_sequence_number
OUT_OF_RANGE: Final = ErrorCode.offset_out_of_range
METADATA_AGE_S: Final = 20.0
"""As clients' `metadata.max.age.ms`, which is minutes."""
LOST_STATE: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
"""Errors that an idempotent producer with one batch in flight must never get."""
CODECS: Final = (*[Codec.NONE] * 4, *Codec)
FEW_PARTITIONS: Final = 4
HASTE_S: Final = 1.0
END_SHARE: Final = 0.1
"""Of the fetches after which a reader asks for the end of a log, too."""
PIECES_BYTES: Final = (600, 6_000, MAX_BYTES)
"""The last reader asks for so much at a time: in small pieces it needs a log's index."""
JUMP_SHARE: Final = 0.04
"""Of the batches after which records are of another day, where they may be."""
DAY_MS: Final = 24 * 3600 * 1000
KEYS_MOVE_S: Final = 20.0
TOMBSTONE_SHARE: Final = 0.25
SEEK_SHARE: Final = 0.03
"""Of the fetches before which a reader goes back to any offset that it has read."""
FOR_GOOD: Final = frozenset(
    {
        ErrorCode.invalid_record,
        ErrorCode.corrupt_message,
        ErrorCode.message_too_large,
        ErrorCode.invalid_timestamp,
    }
)


class Answer(NamedTuple):
    """What became of one attempt to write a batch."""

    error: int
    """`UNANSWERED` where nobody answered."""
    offset: int
    broker_id: int = -1
    """Who answered."""
    asked_s: float = 0.0
    """When the request was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How much clients do: all they can by default."""

    quietness: tuple[float, ...] = ()
    """A partition is so many times as quiet as the busiest, one of these."""
    laziness_s: float = 0.0
    """All readers but the first wait up to so long between two fetches."""
    idle_s: float = 0.4
    """The longest time until a reader checks again whether a broker leads anything by now."""
    fetch_wait_ms: int = 500
    are_of_all_ages: bool = False
    """Whether clients speak any version of each request, and write any codec."""
    has_keys: bool = False
    """Whether every record has a key, which no other record has."""
    asks_once: bool = False
    """Whether a client that has just asked who leads does not ask again, as Java's."""
    in_flight: int = 1
    """So many batches an idempotent producer has on their way to a partition at most."""
    event_days: float = 0.0
    """Records are of up to so many days ago, and now and then of another day than those before."""
    keys: int = 0
    """So many keys come again and again, others after a while; some records delete theirs."""


SPARING: Final = Habits(
    quietness=(1.0, 3.0, 8.0),
    laziness_s=1.0,
    idle_s=1.0,
    fetch_wait_ms=2000,
    are_of_all_ages=True,
    asks_once=True,
)
"""Many seeds instead of much work in each, and clients that differ."""


@dataclass(slots=True)
class Notebook:
    """What all clients write into."""

    now_s: Callable[[], float]
    history: History = field(default_factory=History)
    problems: list[str] = field(default_factory=list)
    """Errors that no client should ever get."""
    errors: dict[str, int] = field(default_factory=dict)
    epoch_s: float = 0.0
    """The wall's time when the world's clock said 0."""
    acked: int = 0
    read_from_followers: int = 0
    last_acked_s: float = 0.0

    def note(
        self, kind: Kind, client: str, partition: TopicPartition, value: str, offset: int = -1
    ) -> None:
        self.history.events.append(Event(self.now_s(), kind, client, str(partition), value, offset))
        if kind is Kind.ACKED:
            self.acked += 1
            self.last_acked_s = self.now_s()

    def now_ms(self) -> int:
        """The wall's time, as clients see it."""
        return int((self.epoch_s + self.now_s()) * 1000)

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether a user has asked to delete its topic."""
        return bool(self.history.deleted) and str(partition) in self.history.deleted

    def error(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1


class Client:
    """What producers and consumers share."""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[str],
        chance: random.Random,
        notebook: Notebook,
        habits: Habits = Habits(),
    ) -> None:
        self.name = name
        self.habits = habits
        self.chance = chance
        self.notebook = notebook
        self.wire = Wire(bootstrap, chance, name)
        self.wire.fetch_wait_ms = habits.fetch_wait_ms
        if habits.are_of_all_ages:
            self.wire.grow_old()
        self._asked_s = -1.0
        """When it last asked who leads."""

    async def back_off(self, longest_s: float = 0.4) -> None:
        """Wait a little, then ask again who leads."""
        since_s = self.notebook.now_s()
        await asyncio.sleep(self.chance.uniform(0.05, longest_s))
        if self.habits.asks_once and self._asked_s >= since_s:
            return
        self._asked_s = self.notebook.now_s()
        try:
            await self.wire.learn()
        except UNREACHED as error:
            self.notebook.error(type(error).__name__)


class Producer(Client):
    """acks=all and idempotent, or acks=1 and sent once."""

    acks = -1
    is_stopping = False
    is_in_haste = False
    """Whether it writes to every partition each second, however quiet that was."""
    crowding = 1.0
    """So many times as long it waits, because there are many partitions."""
    pause_s = 0.3

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[str],
        chance: random.Random,
        notebook: Notebook,
        habits: Habits = Habits(),
    ) -> None:
        super().__init__(name, bootstrap, chance, notebook, habits)
        self._ago_ms: dict[TopicPartition, int] = {}
        """Of what age the records of each partition are at present."""

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        async with asyncio.TaskGroup() as group:
            for one in partitions:
                group.create_task(self.write(one))

    async def write(self, partition: TopicPartition) -> None:
        """Write to the partition until stopped, or until its topic was deleted."""
        number, state, longest_s = 0, None, self._longest_s()
        codec = self._codec()
        while not self.is_stopping and not self.notebook.is_deleted(partition):
            if state is None and self.acks < 0:
                state = await self._new_state()
            values, batch = self._new_batch(partition, number, state, codec)
            number += len(values)
            if self.acks < 0:
                state = await self._send(partition, values, batch, state)
            else:
                await self._send_once(partition, batch)
            await self._pause(self.chance.uniform(0.0, longest_s * self.crowding))

    def _longest_s(self) -> float:
        """Between two batches of a partition, where there are few."""
        if self.habits.quietness:
            return self.pause_s * self.chance.choice(self.habits.quietness)
        return self.pause_s

    def _codec(self) -> Codec:
        return self.chance.choice(CODECS) if self.habits.are_of_all_ages else Codec.NONE

    def _new_batch(
        self, partition: TopicPartition, number: int, state: ProducerState | None, codec: Codec
    ) -> tuple[list[str], bytes]:
        """Some values from this number on, and their batch; both are recorded as sent."""
        count = self.chance.randint(1, 4)
        values = [f"{self.name}/{partition}/{number + index}" for index in range(count)]
        options = BatchOptions(producer=state or NOT_IDEMPOTENT, codec=codec)
        time_ms = self._event_ms(partition)
        records = [self._record(one, time_ms) for one in values]
        for one in values:
            self.notebook.note(Kind.SENT, self.name, partition, one)
        return values, bytes(build_batch(records, options))

    def _event_ms(self, partition: TopicPartition) -> int:
        """Mostly time goes on; now and then all that follows is of another day."""
        now_ms = self.notebook.now_ms()
        if not self.habits.event_days:
            return now_ms
        ago_ms = self._ago_ms.get(partition)
        if ago_ms is None or self.chance.random() < JUMP_SHARE:
            ago_ms = int(self.chance.choice((0.0, self.chance.random())) * self._most_ago_ms)
            self._ago_ms[partition] = ago_ms
        return now_ms - ago_ms

    @property
    def _most_ago_ms(self) -> float:
        return self.habits.event_days * DAY_MS

    def _record(self, value: str, time_ms: int) -> NewRecord:
        data = value.encode()
        if not self.habits.keys:
            return NewRecord(data, key=data if self.habits.has_keys else None, timestamp_ms=time_ms)
        # The window of keys moves on, so that most of them are over by the end.
        history = self.notebook.history
        first = int(self.notebook.now_s() / KEYS_MOVE_S) * self.habits.keys // 2
        key = f"key-{first + self.chance.randrange(self.habits.keys)}"
        history.keys[value] = key
        if self.chance.random() < TOMBSTONE_SHARE:
            history.tombstones.add(value)
            headers = (Header(NAME_HEADER, data),)
            return NewRecord(None, key=key.encode(), timestamp_ms=time_ms, headers=headers)
        return NewRecord(data, key=key.encode(), timestamp_ms=time_ms)

    async def _pause(self, seconds: float) -> None:
        """Sleep in short steps, so that a change of pace takes effect soon."""
        step_s = HASTE_S if self.habits.quietness else seconds
        while seconds > 0 and not self.is_stopping:
            if self.is_in_haste:
                seconds = min(seconds, HASTE_S)
            await asyncio.sleep(min(seconds, step_s))
            seconds -= step_s

    async def _new_state(self) -> ProducerState:
        while True:
            try:
                number, epoch = await self.wire.new_producer_id()
                return ProducerState(producer_id=number, epoch=epoch, base_sequence=0)
            except UNREACHED:
                await self.back_off()

    async def _send_once(self, partition: TopicPartition, batch: bytes) -> None:
        try:
            at = self.wire.leader(partition)
            if at is not None:
                await self.wire.produce(at, partition, batch, self.acks)
                return
        except UNREACHED:
            pass
        await self.back_off()

    async def _send(
        self,
        partition: TopicPartition,
        values: list[str],
        batch: bytes,
        state: ProducerState | None,
    ) -> ProducerState | None:
        """Until it is answered for good; the state for the next batch."""
        assert state is not None
        attempts = 0
        while not self.notebook.is_deleted(partition):
            answer = await self._attempt(partition, batch)
            error = answer.error
            attempts += 1
            if error in {0, DUPLICATE}:
                self._stored(partition, values, answer.offset)
                return ProducerState(
                    producer_id=state.producer_id,
                    epoch=state.epoch,
                    base_sequence=state.base_sequence + len(values),
                )
            if error in LOST_STATE and not self.notebook.is_deleted(partition):
                self._sequence_refused(partition, values, answer)
                return None
            if error in FOR_GOOD:
                # An earlier attempt may have been stored.
                for one in values if attempts == 1 else ():
                    self.notebook.note(Kind.FAILED, self.name, partition, one)
                return None
            await self.back_off()
        return None

    def _stored(self, partition: TopicPartition, values: list[str], offset: int) -> None:
        """Requests name topics: what was under way may be in the next one of that name."""
        is_known = offset >= 0 and not self.notebook.is_deleted(partition)
        for index, one in enumerate(values):
            at = offset + index if is_known else -1
            self.notebook.note(Kind.ACKED, self.name, partition, one, at)

    def _sequence_refused(
        self, partition: TopicPartition, values: list[str], answer: Answer
    ) -> None:
        refused = SequenceRefused(
            at_s=self.notebook.now_s(),
            asked_s=answer.asked_s,
            client=self.name,
            partition=str(partition),
            value=values[0],
            broker_id=answer.broker_id,
            error=ErrorCode(answer.error).name,
        )
        self.notebook.history.sequences_refused.append(refused)

    async def _attempt(self, partition: TopicPartition, batch: bytes) -> Answer:
        at, asked_s = self.wire.leader(partition), self.notebook.now_s()
        if at is None:
            return Answer(UNANSWERED, -1)
        broker_id = self.wire.leaders[partition]
        try:
            error, offset = await self.wire.produce(at, partition, batch, self.acks)
        except UNREACHED as unreached:
            self.notebook.error(type(unreached).__name__)
            return Answer(UNANSWERED, -1)
        if error:
            self.notebook.error(ErrorCode(error).name)
        return Answer(error, offset, broker_id, asked_s)


class Consumer(Client):
    """Reads every partition from its beginning on, and some of it again, at its leader or where
    that sends it."""

    is_lazy = False
    rack = ""

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[str],
        chance: random.Random,
        notebook: Notebook,
        habits: Habits = Habits(),
    ) -> None:
        super().__init__(name, bootstrap, chance, notebook, habits)
        self._positions: dict[TopicPartition, int] = {}
        self._read_at: dict[TopicPartition, int] = {}
        self._has_new = asyncio.Event()
        """Whether it follows what it may not know the leader of."""

    def _reads_at(self, partition: TopicPartition) -> int | None:
        return self._read_at.get(partition, self.wire.leaders.get(partition))

    def _back_to_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker in the rack did not serve them; the leader may send us there again."""
        for one in partitions:
            self._read_at.pop(one, None)

    def follow(self, partition: TopicPartition) -> None:
        """Read this one, too."""
        self._seek(partition, 0)
        self._has_new.set()

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        self.notebook.note(Kind.SOUGHT, self.name, partition, "", offset)
        self._positions[partition] = offset

    async def run(self, partitions: Sequence[TopicPartition], brokers: Sequence[int]) -> None:
        for one in partitions:
            self.follow(one)
        async with asyncio.TaskGroup() as group:
            for broker_id in brokers:
                group.create_task(self.read_from(broker_id))
            group.create_task(self._keep_learning())

    async def _keep_learning(self) -> None:
        """Refresh the metadata: soon after an error, and from time to time without one."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.chance.uniform(0.0, METADATA_AGE_S)):
                    await self._has_new.wait()
            await self.back_off(self.habits.idle_s)
            followed = [one for one in self._positions if not self.notebook.is_deleted(one)]
            if all(self.wire.leader(one) is not None for one in followed):
                self._has_new.clear()

    async def read_from(self, broker_id: int) -> None:
        """What this broker leads, of all that is followed, or what its leader has us read here."""
        positions = self._positions
        while True:
            here = {
                one: offset
                for one, offset in positions.items()
                if self._reads_at(one) == broker_id and not self.notebook.is_deleted(one)
            }
            sent_here = [one for one in here if one in self._read_at]
            at = self.wire.address(broker_id)
            if not here or at is None:
                self._back_to_leaders(sent_here)
                await self.back_off(self.habits.idle_s)
                continue
            if self.chance.random() < SEEK_SHARE:
                again = self.chance.choice(sorted(here))
                self._seek(again, self.chance.randint(0, positions[again]))
                here[again] = positions[again]
            try:
                answers = await self.wire.fetch(at, here, rack=self.rack)
                if self.chance.random() < END_SHARE:
                    await self._ask_end(at, self.chance.choice(sorted(here)))
            except UNREACHED:
                self._back_to_leaders(sent_here)
                await self.back_off()
                continue
            if not all(self._take(one, here, positions) for one in answers):
                await self.back_off()
            elif self.is_lazy and self.habits.laziness_s:
                await asyncio.sleep(self.chance.uniform(0.0, self.habits.laziness_s))
            for one in answers:
                if one.error == OUT_OF_RANGE and one.partition not in sent_here:
                    await self._seek_first(at, one.partition)

    async def _seek_first(self, at: tuple[str, int], partition: TopicPartition) -> None:
        """As a consumer with auto.offset.reset=earliest does it."""
        try:
            error, first = await self.wire.offset(at, partition, EARLIEST)
        except UNREACHED:
            return
        if not error and first > self._positions[partition]:
            self._seek(partition, first)

    async def _ask_end(self, at: tuple[str, int], partition: TopicPartition) -> None:
        """Where the log ends for readers, as this leader sees it. Raises one of `UNREACHED`."""
        led_by, epoch = self.wire.leaders.get(partition), self.wire.epochs.get(partition)
        error, end = await self.wire.offset(at, partition)
        # Another leadership may have begun while we waited, and its answers may be here already.
        is_current = (led_by, epoch) == (
            self.wire.leaders.get(partition),
            self.wire.epochs.get(partition),
        )
        if not error and is_current:
            self.notebook.note(Kind.END, self.name, partition, "", end)

    def _take(
        self,
        answer: Fetched,
        asked: dict[TopicPartition, int],
        positions: dict[TopicPartition, int],
    ) -> bool:
        """Whether it was an answer."""
        partition, error, records, read_at, next_offset = answer
        is_from_follower = partition in self._read_at
        if read_at >= 0:
            self._read_at[partition] = read_at
        if error:
            self._back_to_leaders([partition])
        # A follower may have less than its leader: that is no news of the partition.
        if error == OUT_OF_RANGE and not is_from_follower:
            at = asked[partition]
            self.notebook.note(Kind.OUT_OF_RANGE, self.name, partition, "", at)
        if error:
            self.notebook.error(ErrorCode(error).name)
            return False
        if positions[partition] != asked[partition]:
            return True  # another broker led meanwhile, and was quicker
        if self.notebook.is_deleted(partition):
            return True  # it may be the next topic of that name
        for offset, value in records:
            if offset >= asked[partition]:
                self.notebook.note(Kind.READ, self.name, partition, value, offset)
                self.notebook.read_from_followers += is_from_follower
                positions[partition] = offset + 1
        # Compaction leaves batches without records at their ends, and whole ones.
        positions[partition] = max(positions[partition], next_offset)
        return True


class Auditor(Client):
    """Reads everything at the end."""

    async def read(self, partition: TopicPartition) -> None:
        """A whole partition into the history, for as long as it takes."""
        while True:
            try:
                is_done = await self._read(partition)
            except UNREACHED:
                is_done = False
            if is_done:
                return
            await self.back_off()

    async def _read(self, partition: TopicPartition) -> bool:
        """Whether it was read, whole. Raises one of `UNREACHED`."""
        at = self.wire.leader(partition)
        if at is None:
            return False
        history, label = self.notebook.history, str(partition)
        error, end = await self.wire.offset(at, partition)
        starts_error, start = await self.wire.offset(at, partition, EARLIEST)
        if error or starts_error:
            return False
        found: list[tuple[int, str]] = []
        piece_bytes, position = self.chance.choice(PIECES_BYTES), start
        while position < end:
            (answer,) = await self.wire.fetch(at, {partition: position}, piece_bytes)
            if answer.error or answer.next_offset <= position:
                return False
            found += [one for one in answer.records if one[0] >= position]
            position = answer.next_offset
        history.final[label], history.starts[label], history.ends[label] = found, start, end
        return True
