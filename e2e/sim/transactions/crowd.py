"""All transactional producers of a simulation, the readers of what they commit, and final reads."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

from e2e.sim.clients import Client
from e2e.sim.loop import Process
from e2e.sim.maps import partitions_in
from e2e.sim.transactions.habits import TransactionHabits
from e2e.sim.transactions.history import CommittedOffset, TransactionHistory
from e2e.sim.transactions.producer import Transactor
from e2e.sim.transactions.reader import CommittedReader
from e2e.sim.transactions.second import SecondTransactor
from e2e.sim.transactions.wire import OF_GROUP, TransactionWire
from e2e.sim.wire import UNREACHED, TopicPartition
from e2e.sim.world import World, rack_of

LEDGER: Final = "ledger"
"""The topic that only transactional producers write to."""
READ_UNCOMMITTED: Final = 0
ENDED_WITHIN_S: Final = 40
"""So long producers may take to end their last transactions; then they are killed."""
DECIDED_WITHIN_S: Final = 60.0
"""No transaction may be open for longer after all producers stopped: timeouts are shorter, and
coordinators look for them every ten seconds."""


@dataclass(slots=True)
class ProducerInstance:
    """A transactional id; its process is started again when it has ended."""

    transactional_id: str
    offsets: Callable[[], int]
    starts: int = 0
    transactor: Transactor | None = None
    process: Process | None = None


class Transactors:
    """All processes of all transactional ids, each on its own host, and their readers."""

    def __init__(self, world: World, habits: TransactionHabits) -> None:
        """To be created before clients start: they must not write to the ledger."""
        self.world = world
        self.habits = habits
        self.chance = world.own_chance()
        self.instances = [
            ProducerInstance(f"t{number}", partial(next, count(1)))
            for number in range(1, habits.producers + 1)
        ]
        self._readers: list[CommittedReader] = []
        self._partitions: list[TopicPartition] = []
        self._is_over = False
        world.reserved_topics = frozenset({LEDGER})

    @property
    def history(self) -> TransactionHistory:
        return self.world.notebook.history.transactions

    def create(self) -> None:
        """Create the topic."""
        self.world.make_topic(LEDGER, self.habits.partitions)

    def start(self) -> None:
        """Start the producers and the readers."""
        world = self.world
        self._partitions = [one for one in partitions_in(world.store) if one.topic == LEDGER]
        for instance in self.instances:
            self.launch(instance)
        for number in range(1, self.habits.readers + 1):
            reader = self._new_reader(f"committed-{number}")
            reader.rack = rack_of(number) if world.reads_in_racks and number > 1 else ""
            self._readers.append(reader)
            world.as_client(reader.name, reader.run(self._partitions))
        world.as_client("offsets", self._ask_for_offsets())

    def _new_reader(self, name: str) -> CommittedReader:
        return CommittedReader(name, self.world.bootstrap, self._own_chance(), self.world.notebook)

    def _own_chance(self) -> random.Random:
        return random.Random(self.chance.getrandbits(64))  # noqa: S311 - not for secrets

    def _wire(
        self, instance: ProducerInstance, name: str, *, is_second: bool = False
    ) -> TransactionWire:
        return TransactionWire(
            instance.transactional_id,
            self.world.bootstrap,
            self._own_chance(),
            name,
            is_second=is_second,
        )

    def launch(self, instance: ProducerInstance) -> None:
        """Start a process for a transactional id; one that runs already is not stopped."""
        instance.starts += 1
        name = f"{instance.transactional_id}#{instance.starts}"
        is_second = self.chance.random() < self.habits.second_share
        kind = SecondTransactor if is_second else Transactor
        wire = self._wire(instance, name, is_second=is_second)
        transactor = kind(wire, name, self.world.notebook, self.habits, instance.offsets)
        instance.transactor = transactor
        instance.process = self.world.new_client(name)
        task = instance.process.spawn(transactor.run(self._partitions), name)
        task.add_done_callback(partial(self._ended, instance, transactor))

    def _ended(
        self, instance: ProducerInstance, transactor: Transactor, task: "asyncio.Task[Any]"
    ) -> None:
        """Start the next process when one has ended, unless a newer one runs already."""
        self.world.client_ended(task)
        if instance.transactor is transactor:
            instance.transactor = None
            if not self._is_over and not task.cancelled():
                self.launch(instance)

    # -- what goes wrong with producers

    def somebody(self) -> ProducerInstance:
        """A random transactional id."""
        return self.chance.choice(self.instances)

    def kill(self, instance: ProducerInstance) -> None:
        """Kill the process: only its connections break."""
        if instance.process is not None:
            instance.process.is_alive = False
            self.world.network.ended(instance.process)
        instance.process = instance.transactor = None

    def restart(self, instance: ProducerInstance) -> None:
        """Start a process if there is none."""
        if instance.transactor is None and not self._is_over:
            self.launch(instance)

    # -- in the end

    def heal(self) -> None:
        """Let a process of each transactional id run."""
        for instance in self.instances:
            if instance.process is not None and instance.process.is_paused:
                self.world.loop.resume(instance.process)
            self.restart(instance)

    def note_unwell(self, since_s: float) -> bool:
        """Note in the history the producers that have committed nothing since then; returns whether
        there are any."""
        self.history.unwell = [
            (instance.transactional_id, f"nothing committed since t={since_s:.1f}")
            for instance in self.instances
            if instance.transactor is None or instance.transactor.committed_s < since_s
        ]
        return bool(self.history.unwell)

    def stop(self) -> None:
        """Let all producers and readers end after what they are doing."""
        self._is_over = True
        for instance in self.instances:
            if instance.transactor is not None:
                instance.transactor.is_stopping = True
        for reader in self._readers:
            reader.is_stopping = True

    async def audit(self) -> None:
        """Wait until no transaction is open, then read everything that is committed."""
        for _ in range(ENDED_WITHIN_S):
            if all(instance.transactor is None for instance in self.instances):
                break
            await asyncio.sleep(1.0)
        for instance in self.instances:
            self.kill(instance)
        reader = self._new_reader("committed-last")
        for partition in self._partitions:
            await self._until_decided(reader, partition)
        for partition in self._partitions:
            await _until(reader, partial(self._read_all, reader, partition))
        for instance in self.instances:
            wire = self._wire(instance, "offsets-last")
            world = self.world
            asking = Client("offsets-last", world.bootstrap, self._own_chance(), world.notebook)
            await _until(asking, partial(self._ask_for_offset, instance, wire, is_last=True))

    async def _until_decided(self, reader: CommittedReader, partition: TopicPartition) -> None:
        """Wait until the last stable offset is the high watermark, or note that it is not."""
        until_s = self.world.loop.time() + DECIDED_WITHIN_S
        while True:
            found = await self._ends(reader, partition)
            if found is not None:
                stable, high_watermark = found
                if stable == high_watermark:
                    return
                if self.world.loop.time() >= until_s:
                    self.history.open_in.append((str(partition), stable, high_watermark))
                    return
            await reader.back_off()

    async def _ends(
        self, reader: CommittedReader, partition: TopicPartition
    ) -> tuple[int, int] | None:
        """(last stable offset, high watermark) of a partition; None after an error."""
        wire = reader.wire
        at = wire.leader(partition)
        if at is None:
            return None
        try:
            error, stable = await wire.offset(at, partition)
            also, end = await wire.offset(at, partition, isolation_level=READ_UNCOMMITTED)
        except UNREACHED:
            return None
        return None if error or also else (stable, end)

    async def _read_all(self, reader: CommittedReader, partition: TopicPartition) -> bool:
        """Try once to read a whole partition; False if it failed. Raises one of `UNREACHED`."""
        at, ends = reader.wire.leader(partition), await self._ends(reader, partition)
        if at is None or ends is None:
            return False
        found: list[tuple[int, str]] = []
        position = 0
        while position < ends[0]:
            piece, _ = await reader.fetch(at, partition, position)
            if piece is None or piece.to_offset <= position:
                return False
            found += piece.records
            position = piece.to_offset
        self.history.final[str(partition)] = found
        return True

    # -- committed offsets

    async def _ask_for_offsets(self) -> None:
        """Ask for the committed offset of a random transactional id's group from time to time."""
        wires = {
            instance.transactional_id: self._wire(instance, "offsets")
            for instance in self.instances
        }
        while not self._is_over:
            await asyncio.sleep(self.chance.uniform(0.0, 2 * self.habits.asks_s))
            instance = self.somebody()
            try:
                await self._ask_for_offset(instance, wires[instance.transactional_id])
            except UNREACHED as error:
                self.world.notebook.error(type(error).__name__)

    async def _ask_for_offset(
        self, instance: ProducerInstance, wire: TransactionWire, *, is_last: bool = False
    ) -> bool:
        """Fetch the stable offset of the id's group; False after an error. Raises one of
        `UNREACHED`."""
        asked_s = self.world.loop.time()
        error, at = await wire.coordinator(OF_GROUP)
        if error:
            return False
        error, offset, name = await wire.committed(at, min(self._partitions))
        if error:
            return False
        found = CommittedOffset(
            asked_s, self.world.loop.time(), instance.transactional_id, offset, name
        )
        self.history.offsets.append(found)
        if is_last:
            self.history.last_offsets[instance.transactional_id] = found
        return True


async def _until(client: Client, work: Callable[[], Awaitable[bool]]) -> None:
    """Repeat this until it succeeds."""
    while True:
        try:
            if await work():
                return
        except UNREACHED:
            pass
        await client.back_off()
