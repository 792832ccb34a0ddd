"""Producers and consumers like those of a careful user, which note all that they do and get.

A producer has one batch in flight per partition and sends it again until it is answered: with
idempotence it must not be stored twice. A consumer reads a partition from its position on.
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
"""As `metadata.max.age.ms` of Kafka's clients, where it is five minutes."""
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
"""Up to this many partitions, producers do not slow down."""
HASTE_S: Final = 1.0
"""The longest pause between two batches while a producer `is_in_haste`."""
END_SHARE: Final = 0.1
"""Share of fetches after which a consumer also asks for the partition's high watermark."""
PIECES_BYTES: Final = (600, 6_000, MAX_BYTES)
"""Sizes of the auditor's fetches: small ones begin inside of a segment and need its index."""
JUMP_SHARE: Final = 0.04
"""Share of batches with which the timestamps of a partition jump to another day."""
DAY_MS: Final = 24 * 3600 * 1000
KEYS_MOVE_S: Final = 20.0
"""After this time half of the keys are replaced by new ones."""
TOMBSTONE_SHARE: Final = 0.25
SEEK_SHARE: Final = 0.03
"""Share of fetches before which a consumer seeks back to a random offset that it has read."""
FOR_GOOD: Final = frozenset(
    {
        ErrorCode.invalid_record,
        ErrorCode.corrupt_message,
        ErrorCode.message_too_large,
        ErrorCode.invalid_timestamp,
    }
)
"""Errors of a produce request that are not retriable: the batch was not stored."""


class Answer(NamedTuple):
    """The result of one attempt to write a batch."""

    error: int
    """An error code, 0 for success, or `UNANSWERED`."""
    offset: int
    broker_id: int = -1
    """The broker that answered; -1 if none did."""
    asked_s: float = 0.0
    """When the request was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How busy clients are and which features they use; the defaults are the highest load."""

    quietness: tuple[float, ...] = ()
    """Factors for a producer's pauses; each partition gets one of them. Empty: all are equal."""
    laziness_s: float = 0.0
    """The longest pause of all consumers but the first between two fetches."""
    idle_s: float = 0.4
    """The longest time until a consumer checks again whether a broker leads any partition."""
    fetch_wait_ms: int = 500
    are_of_all_ages: bool = False
    """Whether clients use random versions of requests and random compression codecs."""
    has_keys: bool = False
    """Whether every record has a unique key."""
    asks_once: bool = False
    """Whether tasks of one client share a refresh of its metadata, as in Java's client."""
    in_flight: int = 1
    """The most batches that an idempotent producer has in flight per partition."""
    event_days: float = 0.0
    """Timestamps of records are up to this many days old and jump between days."""
    keys: int = 0
    """Number of keys in use at a time. They are used again and again, slowly replaced by others,
    and some records are tombstones. 0: no repeated keys."""


SPARING: Final = Habits(
    quietness=(1.0, 3.0, 8.0),
    laziness_s=1.0,
    idle_s=1.0,
    fetch_wait_ms=2000,
    are_of_all_ages=True,
    asks_once=True,
)
"""A low load, so that more seeds can be simulated, with clients of different versions."""


@dataclass(slots=True)
class Notebook:
    """What all clients of a run note: events for the checkers, problems, and counts."""

    now_s: Callable[[], float]
    history: History = field(default_factory=History)
    problems: list[str] = field(default_factory=list)
    """Errors that no client should ever get."""
    errors: dict[str, int] = field(default_factory=dict)
    epoch_s: float = 0.0
    """The wall-clock time at 0 s of the loop's time, in seconds."""
    acked: int = 0
    read_from_followers: int = 0
    last_acked_s: float = 0.0

    def note(
        self, kind: Kind, client: str, partition: TopicPartition, value: str, offset: int = -1
    ) -> None:
        """Add an event of a client with the present time; an `offset` of -1 is an unknown one."""
        self.history.events.append(Event(self.now_s(), kind, client, str(partition), value, offset))
        if kind is Kind.ACKED:
            self.acked += 1
            self.last_acked_s = self.now_s()

    def now_ms(self) -> int:
        """The wall-clock time of clients, which is always correct."""
        return int((self.epoch_s + self.now_s()) * 1000)

    def is_deleted(self, partition: TopicPartition) -> bool:
        """Whether a user has asked to delete its topic."""
        return bool(self.history.deleted) and str(partition) in self.history.deleted

    def error(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1


class Client:
    """The base of producers and consumers: a name, connections, and refreshing metadata."""

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
        """When this client last began to refresh its metadata."""

    async def back_off(self, longest_s: float = 0.4) -> None:
        """Wait a random time up to `longest_s`, then refresh the metadata."""
        since_s = self.notebook.now_s()
        await asyncio.sleep(self.chance.uniform(0.05, longest_s))
        if self.habits.asks_once and self._asked_s >= since_s:
            return  # another task of this client refreshed it in the meantime
        self._asked_s = self.notebook.now_s()
        try:
            await self.wire.learn()
        except UNREACHED as error:
            self.notebook.error(type(error).__name__)


class Producer(Client):
    """A producer: with acks=all idempotent and with retries, with acks=1 without both."""

    acks = -1
    is_stopping = False
    is_in_haste = False
    """Whether it writes to each partition at least every `HASTE_S`, without longer pauses."""
    crowding = 1.0
    """Factor for its pauses, above 1 if there are many partitions."""
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
        self._record_age_ms: dict[TopicPartition, int] = {}
        """Partition -> present age of its new records' timestamps."""

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        """Write to all these partitions at the same time."""
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
        """The longest pause between two batches of a partition, drawn once for each partition."""
        if self.habits.quietness:
            return self.pause_s * self.chance.choice(self.habits.quietness)
        return self.pause_s

    def _codec(self) -> Codec:
        return self.chance.choice(CODECS) if self.habits.are_of_all_ages else Codec.NONE

    def _new_batch(
        self, partition: TopicPartition, number: int, state: ProducerState | None, codec: Codec
    ) -> tuple[list[str], bytes]:
        """1 to 4 values, numbered from `number` on, and their batch; notes them as sent."""
        count = self.chance.randint(1, 4)
        values = [f"{self.name}/{partition}/{number + index}" for index in range(count)]
        options = BatchOptions(producer=state or NOT_IDEMPOTENT, codec=codec)
        time_ms = self._event_ms(partition)
        records = [self._record(one, time_ms) for one in values]
        for one in values:
            self.notebook.note(Kind.SENT, self.name, partition, one)
        return values, bytes(build_batch(records, options))

    def _event_ms(self, partition: TopicPartition) -> int:
        """The timestamp of the next records of a partition.

        It advances with the clock; with `event_days` it sometimes jumps to another age.
        """
        now_ms = self.notebook.now_ms()
        if not self.habits.event_days:
            return now_ms
        age_ms = self._record_age_ms.get(partition)
        if age_ms is None or self.chance.random() < JUMP_SHARE:
            age_ms = int(self.chance.choice((0.0, self.chance.random())) * self._oldest_age_ms)
            self._record_age_ms[partition] = age_ms
        return now_ms - age_ms

    @property
    def _oldest_age_ms(self) -> float:
        return self.habits.event_days * DAY_MS

    def _record(self, value: str, time_ms: int) -> NewRecord:
        """A record with this value; with repeated keys, notes its key, and some are tombstones."""
        data = value.encode()
        if not self.habits.keys:
            return NewRecord(data, key=data if self.habits.has_keys else None, timestamp_ms=time_ms)
        # The range of keys moves, so that most keys have got their last record before the end.
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
        """Sleep in short steps, so that `is_in_haste` and `is_stopping` take effect soon."""
        step_s = HASTE_S if self.habits.quietness else seconds
        while seconds > 0 and not self.is_stopping:
            if self.is_in_haste:
                seconds = min(seconds, HASTE_S)
            await asyncio.sleep(min(seconds, step_s))
            seconds -= step_s

    async def _new_state(self) -> ProducerState:
        """Ask for a new producer id until a broker gives one."""
        while True:
            try:
                number, epoch = await self.wire.new_producer_id()
                return ProducerState(producer_id=number, epoch=epoch, base_sequence=0)
            except UNREACHED:
                await self.back_off()

    async def _send_once(self, partition: TopicPartition, batch: bytes) -> None:
        """Send a batch without retries: it may be lost, and nothing is noted of it."""
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
        """Send a batch until there is a final answer; returns the state for the next batch.

        None stands for a producer id that must not be used any more.
        """
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
        """Note the values as acknowledged, the first one at `offset`; -1 if it is unknown.

        If the topic was deleted, the offset is unknown: requests name topics, so the batch may be
        in a new topic of the same name.
        """
        is_known = offset >= 0 and not self.notebook.is_deleted(partition)
        for index, one in enumerate(values):
            at = offset + index if is_known else -1
            self.notebook.note(Kind.ACKED, self.name, partition, one, at)

    def _sequence_refused(
        self, partition: TopicPartition, values: list[str], answer: Answer
    ) -> None:
        """Note that a broker refused a batch because of its sequence number.

        That is wrong, because all earlier batches of this producer were acknowledged.
        """
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
        """Send a batch once to the leader, if it is known; counts an error."""
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
    """Reads partitions from offset 0 on, and parts of them again.

    It fetches from the leader, or from the replica in its rack that the leader names.
    """

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
        """Partition -> the follower from which it is read, instead of the leader."""
        self._may_lack_leaders = asyncio.Event()
        """Set while it may not know the leader of each partition that it reads."""

    def _reads_at(self, partition: TopicPartition) -> int | None:
        """The broker from which the partition is read; None if its leader is not known."""
        return self._read_at.get(partition, self.wire.leaders.get(partition))

    def _back_to_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from their leaders again, because a follower did not serve them.

        The leader may name the follower again later.
        """
        for one in partitions:
            self._read_at.pop(one, None)

    def follow(self, partition: TopicPartition) -> None:
        """Read this partition, too, from offset 0 on."""
        self._seek(partition, 0)
        self._may_lack_leaders.set()

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        self.notebook.note(Kind.SOUGHT, self.name, partition, "", offset)
        self._positions[partition] = offset

    async def run(self, partitions: Sequence[TopicPartition], brokers: Sequence[int]) -> None:
        """Read these partitions forever, with one task for each broker id in `brokers`."""
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
                    await self._may_lack_leaders.wait()
            await self.back_off(self.habits.idle_s)
            followed = [one for one in self._positions if not self.notebook.is_deleted(one)]
            if all(self.wire.leader(one) is not None for one in followed):
                self._may_lack_leaders.clear()

    async def read_from(self, broker_id: int) -> None:
        """Fetch forever, from one broker, the partitions that are to be read from it.

        It leads them, or it is the follower that their leader named.
        """
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
            if not all(self._note_fetched(one, here, positions) for one in answers):
                await self.back_off()
            elif self.is_lazy and self.habits.laziness_s:
                await asyncio.sleep(self.chance.uniform(0.0, self.habits.laziness_s))
            for one in answers:
                if one.error == OUT_OF_RANGE and one.partition not in sent_here:
                    await self._seek_first(at, one.partition)

    async def _seek_first(self, at: tuple[str, int], partition: TopicPartition) -> None:
        """Seek to the log start offset, as a consumer with auto.offset.reset=earliest does."""
        try:
            error, first = await self.wire.offset(at, partition, EARLIEST)
        except UNREACHED:
            return
        if not error and first > self._positions[partition]:
            self._seek(partition, first)

    async def _ask_end(self, at: tuple[str, int], partition: TopicPartition) -> None:
        """Ask this leader for the high watermark and note it. Raises one of `UNREACHED`."""
        led_by, epoch = self.wire.leaders.get(partition), self.wire.epochs.get(partition)
        error, end = await self.wire.offset(at, partition)
        # Another leader may have been elected in the meantime, and have answered already: then
        # this high watermark may be lower than the one noted last.
        is_current = (led_by, epoch) == (
            self.wire.leaders.get(partition),
            self.wire.epochs.get(partition),
        )
        if not error and is_current:
            self.notebook.note(Kind.END, self.name, partition, "", end)

    def _note_fetched(
        self,
        answer: Fetched,
        asked: dict[TopicPartition, int],
        positions: dict[TopicPartition, int],
    ) -> bool:
        """Note the records of one partition's fetch, or its error; False for an error.

        `asked` has the offsets in the request; `positions` the present ones, which it advances.
        """
        partition, error, records, read_at, next_offset = answer
        is_from_follower = partition in self._read_at
        if read_at >= 0:
            self._read_at[partition] = read_at
        if error:
            self._back_to_leaders([partition])
        # A follower may have fewer records than its leader: its error says nothing about the
        # partition.
        if error == OUT_OF_RANGE and not is_from_follower:
            at = asked[partition]
            self.notebook.note(Kind.OUT_OF_RANGE, self.name, partition, "", at)
        if error:
            self.notebook.error(ErrorCode(error).name)
            return False
        if positions[partition] != asked[partition]:
            return True  # an answer of another broker, the next leader, was processed first
        if self.notebook.is_deleted(partition):
            return True  # it may be the next topic of that name
        for offset, value in records:
            if offset >= asked[partition]:
                self.notebook.note(Kind.READ, self.name, partition, value, offset)
                self.notebook.read_from_followers += is_from_follower
                positions[partition] = offset + 1
        # Compaction may remove the last records of a batch, or all of them.
        positions[partition] = max(positions[partition], next_offset)
        return True


class Auditor(Client):
    """Reads all partitions at the end of a run."""

    async def read(self, partition: TopicPartition) -> None:
        """Read a whole partition into the history, with retries until it succeeds."""
        while True:
            try:
                is_done = await self._read(partition)
            except UNREACHED:
                is_done = False
            if is_done:
                return
            await self.back_off()

    async def _read(self, partition: TopicPartition) -> bool:
        """Try once to read a whole partition; False if it failed. Raises one of `UNREACHED`."""
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
