"""What readers are sent while their log is compacted, expires, is cut and is deleted.

Answers are made by the log and sent from its files, as Fetch does, to readers so slow that most
wait in their files. What a reader gets has to be the records of the offsets that were asked for,
in the bytes that the log had when it answered.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import uvloop

from chiplog_broker.ports.system_disk import SystemDisk, SystemFile
from chiplog_broker.server.file_sending import FileAnswer, FileSender, with_files
from chiplog_broker.storage.compaction.cleaner import CleanerSettings, LogCleaner
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.log import PartitionLog
from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from tests.storage.conftest import ORDERS, TOPIC_ID, Notified
from tests.storage.memory_disk import ManualClock, SeededRng

SEEDS: Final = 4
STEPS: Final = 300
READERS: Final = 6
SOCKET_BYTES: Final = 8_192
NO_EPOCH: Final = 0
MOST_S: Final = 30
KEYS: Final = tuple(b"key-%d" % number for number in range(5))
CONFIG: Final = LogConfig(
    segment_bytes=400_000,
    index_interval_bytes=1_000,
    retention_ms=60_000,
    compacts=True,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=1_000,
    message_timestamp_after_max_ms=10**12,
)
CLEANER: Final = CleanerSettings(dedupe_buffer_bytes=2**20, io_max_bytes_per_second=float("inf"))
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Ours(asyncio.Protocol):
    """The broker's end: a connection that is lost gives back what is sent on it."""

    sender: FileSender

    def connection_lost(self, exc: Exception | None) -> None:
        self.sender.close()


class Reader:
    """One connection, and what is to come out of it."""

    def __init__(self, sender: FileSender, transport: asyncio.Transport, peer: socket.socket):
        self.sender, self.transport, self.peer = sender, transport, peer
        self.expected = bytearray()
        self.got = 0

    def send(self, answer: list[bytes] | FileAnswer) -> None:
        assert isinstance(answer, FileAnswer), "this is about files"
        self.expected += b"".join(answer.in_memory())
        self.sender.send(answer)

    def take(self, most_bytes: int) -> None:
        """What there is of so many bytes."""
        with suppress(BlockingIOError):
            if not most_bytes:
                return
            data = self.peer.recv(most_bytes)
            assert data, "the connection ended early"
            is_as_read = data == self.expected[self.got : self.got + len(data)]
            assert is_as_read, f"other bytes than were read, after {self.got}"
            self.got += len(data)

    def close(self) -> None:
        self.sender.close()
        self.transport.abort()
        self.peer.close()


async def connected() -> Reader:
    ours, peer = socket.socketpair()
    for one in (ours, peer):
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    transport, protocol = await asyncio.get_running_loop().create_connection(Ours, sock=ours)
    protocol.sender = FileSender(transport, lambda: None)
    return Reader(protocol.sender, transport, peer)


class Model:
    """A log, what was written to it, and who reads it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)  # noqa: S311 - a run that can be repeated
        self.clock = ManualClock()
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.high_watermark = 0
        self.readers: list[Reader] = []
        self.waited = 0
        """How many answers were still in their files when something else was done."""
        self.done: set[str] = set()
        self.directory: LogDirectory
        self.log: PartitionLog

    async def run(self) -> None:
        ports = StoragePorts(SystemDisk(self.path), self.clock, SeededRng())
        options = OpenOptions(node_id=1, cluster_id="cluster", config_of=lambda _: CONFIG)
        self.directory = await LogDirectory.open(ports, options, Notified())
        self.log = await self.directory.create(ORDERS, TOPIC_ID, CONFIG)
        self.readers = [await connected() for _ in range(READERS)]
        try:
            async with asyncio.timeout(MOST_S):
                await self.work()
        finally:
            for one in self.readers:
                one.close()

    async def work(self) -> None:
        for _ in range(STEPS):
            self.clock.time_ms += self.chance.randrange(400)
            await self.chance.choices(tuple(MOVES), tuple(MOVES.values()))[0](self)
            self.waited += sum(one.sender.busy for one in self.readers)
            for one in self.readers:
                one.take(self.chance.choice((0, 0, 1_000, 50_000)))
            await asyncio.sleep(0)
        while any(one.got < len(one.expected) for one in self.readers):
            for one in self.readers:
                one.take(2**20)
            await asyncio.sleep(0)

    # --- writing and reading ----------------------------------------------------------

    async def append(self) -> None:
        """Some batches, of which all, some or none are below the high watermark then."""
        for _ in range(self.chance.randint(1, 4)):
            key = self.chance.choice(KEYS)
            value = self.chance.randbytes(self.chance.randint(10, 90_000))
            record = NewRecord(value, key, self.clock.now_ms())
            batch = memoryview(build_batch([record], BatchOptions()))
            appended = self.log.append_as_leader(batch, NO_EPOCH, self.clock.now_ms())
            self.written[appended.base_offset] = (key, value)
        await self.log.flush()
        self.high_watermark = self.chance.randint(self.high_watermark, self.log.end_offset)

    async def fetch(self) -> None:
        reader = self.chance.choice(self.readers)
        start, end = self.log.log_start_offset, self.high_watermark
        if reader.sender.busy or start >= end:
            return
        offset = self.chance.randrange(start, end)
        found = self.log.read(offset, self.chance.randint(100_000, 600_000), end)
        self.check(found.read(), offset, end)
        answer = with_files([b"%d" % offset, found])
        if isinstance(answer, FileAnswer):
            reader.send(answer)

    def check(self, data: bytes, asked: int, end: int) -> None:
        """Records that were written, in their order, from the offset that was asked for on."""
        last = -1
        for position, header in iter_batches(data):
            batch = memoryview(data)[position:]
            check_crc(batch, header)
            assert header.base_offset > last
            last = header.last_offset
            for record in read_records(batch, header):
                assert (record.key, record.value) == self.written[record.offset]
        assert asked <= last < end

    # --- what becomes of the files ----------------------------------------------------

    async def compact(self) -> None:
        self.log.roll(self.clock.now_ms())
        cleaner = LogCleaner(self.directory, self.clock)
        if await cleaner.clean_dirtiest({ORDERS: self.high_watermark}, CLEANER):
            self.done.add("compacted")

    async def expire(self) -> None:
        self.clock.time_ms += self.chance.choice((0, 5_000, 70_000))
        if await self.log.enforce_retention(self.high_watermark, self.clock.now_ms()):
            self.done.add("expired")

    async def delete_records(self) -> None:
        start = self.log.log_start_offset
        if self.high_watermark > start:
            offset = self.chance.randint(start, self.high_watermark)
            await self.log.delete_records_before(offset, self.clock.now_ms())
            self.done.add("records deleted")

    async def truncate(self) -> None:
        """As a follower does: nothing below the high watermark."""
        if self.log.end_offset > self.high_watermark:
            await self.log.truncate_to(self.high_watermark, self.clock.now_ms())
            self.done.add("truncated")

    async def start_over(self) -> None:
        """As a follower that is too far behind does."""
        offset = self.log.end_offset + self.chance.randrange(10)
        await self.log.truncate_fully_and_start_at(offset, self.clock.now_ms())
        self.high_watermark = offset
        self.done.add("started over")

    async def make_anew(self) -> None:
        """The topic is deleted, and another made of its name."""
        await self.directory.delete(ORDERS)
        self.clock.time_ms += CONFIG.file_delete_delay_ms
        await self.directory.maintain({})
        self.log = await self.directory.create(ORDERS, TOPIC_ID, CONFIG)
        self.written, self.high_watermark = {}, 0
        self.done.add("made anew")

    async def remove_files(self) -> None:
        """Those whose delay has passed: names go, and descriptors that nobody holds."""
        self.clock.time_ms += CONFIG.file_delete_delay_ms
        await self.directory.maintain({ORDERS: self.high_watermark})


MOVES: Final = {
    Model.append: 10,
    Model.fetch: 20,
    Model.compact: 3,
    Model.expire: 2,
    Model.delete_records: 2,
    Model.truncate: 2,
    Model.start_over: 1,
    Model.make_anew: 1,
    Model.remove_files: 3,
}
ALL: Final = {
    *("compacted", "expired", "records deleted"),
    *("truncated", "started over", "made anew"),
}


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
def test_readers_get_what_the_log_had(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    done: set[str] = set()
    waited = 0
    for seed in range(SEEDS):
        model = Model(tmp_path / str(seed), seed)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(model.run())
        done |= model.done
        waited += model.waited
    assert done == ALL
    assert waited > SEEDS * STEPS, "hardly any answer waited in its file"


def test_files_that_nobody_holds_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with a fault: what is closed is gone, or is another file by now."""
    monkeypatch.setattr(SystemFile, "hold", lambda _: None)
    monkeypatch.setattr(SystemFile, "release", lambda _: None)
    failed = []
    for seed in range(SEEDS):
        try:
            asyncio.run(Model(tmp_path / str(seed), seed).run())
        except (AssertionError, ConnectionError, TimeoutError) as error:
            failed.append(str(error))
    assert failed
