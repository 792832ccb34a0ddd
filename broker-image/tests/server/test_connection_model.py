"""What a connection sends is what was read, on both event loops, whatever becomes of the files.

The reader is slow, so that answers wait in their files while these are closed, renamed, removed
and followed by others, which get their descriptors.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import uvloop

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.disk import File
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.server.connection import AnyRequest, Connection, Started
from chiplog_broker.server.file_sending import FileAnswer, Piece
from chiplog_broker.server.peer import Peer
from chiplog_broker.storage.log import LogSlice
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.requests import Request

SEEDS: Final = 4
REQUESTS: Final = 80
FILES: Final = 6
FILE_BYTES: Final = 300_000
# So that hardly any answer goes out at once.
SOCKET_BYTES: Final = 8_192
LISTENER: Final = Listener("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Files:
    """Some files that come, change their names and go."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.disk = SystemDisk(directory)
        self.chance = chance
        self.open: dict[str, File] = {}
        self.made = 0
        for _ in range(FILES):
            self.make()

    def make(self) -> None:
        name = str(self.made)
        self.made += 1
        self.open[name] = file = self.disk.open(name, create=True)
        file.append(self.chance.randbytes(self.chance.randrange(1, FILE_BYTES)))

    def change(self) -> None:
        """As compaction, retention and deletion of topics do, at any moment."""
        name = self.chance.choice(list(self.open))
        match self.chance.randrange(4):
            case 0:
                self.disk.rename(name, f"{name}.deleted")
                self.open[f"{name}.deleted"] = self.open.pop(name)
            case 1:
                self.open.pop(name).close()
                self.disk.remove(name)
                self.make()
            case 2:
                # Another file has this name at once, and maybe this descriptor.
                self.open.pop(name).close()
                self.disk.rename(name, "replaced")
                self.make()
                self.disk.remove("replaced")
            case _:
                self.open[name].append(self.chance.randbytes(1_000))

    def slice(self) -> LogSlice:
        file = self.chance.choice(list(self.open.values()))
        at = self.chance.randrange(file.size())
        return LogSlice(file, at, self.chance.randrange(1, file.size() - at + 1), 0)

    def close(self) -> None:
        for file in self.open.values():
            file.close()
        self.disk.close()


class Service:
    """Answers by chance, and remembers what each answer has to be."""

    def __init__(self, files: Files, chance: random.Random) -> None:
        self.files = files
        self.chance = chance
        self.expected = bytearray()
        self.answered = 0
        self.from_files = 0
        self.connection: Connection
        self.unsent_bytes = 0
        self.gone = asyncio.Event()

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        assert isinstance(request, Request)
        number = str(request.header.correlation_id).encode()
        match request.header.api_key:
            case ApiKey.PRODUCE:
                self.expects(number)
                answer: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
                self.later(self.chance.randrange(5), answer, [number])
                return answer
            case ApiKey.FETCH:
                return self.records(number)
        pieces = [number, self.chance.randbytes(self.chance.choice((0, 10, 50_000)))]
        self.expects(*pieces)
        return pieces

    def expects(self, *pieces: bytes) -> None:
        self.expected += b"".join(pieces)
        self.answered += 1

    def records(self, number: bytes) -> FileAnswer:
        pieces: list[Piece] = [number]
        for _ in range(self.chance.randint(1, 3)):
            pieces += [self.files.slice(), self.chance.randbytes(9)]
        answer = FileAnswer(pieces)
        self.expects(*answer.in_memory())
        self.from_files += 1
        return answer

    def later(self, turns: int, answer: "asyncio.Future[list[bytes]]", data: list[bytes]) -> None:
        """After so many turns of the loop."""
        if answer.cancelled():
            return
        if turns:
            asyncio.get_running_loop().call_soon(self.later, turns - 1, answer, data)
        else:
            answer.set_result(data)

    def connected(self, connection: Connection) -> Peer | None:
        self.connection = connection
        raw = connection.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        return Peer("127.0.0.1", 50000, LISTENER)

    def unsent(self, change_bytes: int) -> None:
        self.unsent_bytes += change_bytes

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        self.gone.set()


def frames(chance: random.Random) -> bytes:
    keys = chance.choices((ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA), k=REQUESTS)
    return b"".join(frame(key, number) for number, key in enumerate(keys))


def frame(key: ApiKey, correlation_id: int) -> bytes:
    version = 3 if key is ApiKey.PRODUCE else 4
    header = struct.pack(">hhih", key, version, correlation_id, -1)
    return struct.pack(">i", len(header)) + header


def open_in(directory: Path) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(link.readlink()))
    return [one for one in found if one.startswith(str(directory))]


async def exchange(directory: Path, seed: int) -> Service:
    """Everything that is asked for, sent to a slow reader. Raises where it is not what was read."""
    chance = random.Random(seed)  # noqa: S311 - an exchange that can be repeated
    files = Files(directory, chance)
    service = Service(files, chance)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service, 2**20), "127.0.0.1", 0)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    client.setblocking(False)
    await loop.sock_connect(client, server.sockets[0].getsockname())
    reader, writer = await asyncio.open_connection(sock=client, limit=SOCKET_BYTES)
    sending = asyncio.create_task(send(writer, frames(chance), chance))
    got = 0
    while service.answered < REQUESTS or got < len(service.expected):
        data = await reader.read(chance.choice((100, SOCKET_BYTES, 2**20)))
        assert data, "the connection ended early"
        # Told apart here: pytest would take minutes to show the difference.
        is_as_read = data == service.expected[got : got + len(data)]
        assert is_as_read, f"other bytes than were read, after {got}"
        got += len(data)
        if chance.random() < 0.3:
            files.change()
    await sending
    writer.close()
    await service.gone.wait()
    assert service.unsent_bytes == 0
    assert len(open_in(directory)) == len(files.open), "all others were given back"
    files.close()
    assert not open_in(directory)
    server.close()
    await server.wait_closed()
    return service


async def send(writer: asyncio.StreamWriter, data: bytes, chance: random.Random) -> None:
    """In pieces that know nothing of frames."""
    while data:
        size = chance.randint(1, 60)
        writer.write(data[:size])
        data = data[size:]
        await asyncio.sleep(0)


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
def test_answers_are_what_was_read_in_the_order_of_requests(
    new_loop: NewLoop, tmp_path: Path
) -> None:
    for seed in range(SEEDS):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            service = runner.run(asyncio.wait_for(exchange(tmp_path / str(seed), seed), 60))
        assert service.answered == REQUESTS
        assert service.from_files > REQUESTS // 6


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
def test_what_is_cut_off_in_the_meantime_ends_the_connection(
    new_loop: NewLoop, tmp_path: Path
) -> None:
    """A follower that asked may get the beginning, and never bytes that fill up the answer."""

    async def scenario() -> None:
        chance = random.Random(5)  # noqa: S311 - an exchange that can be repeated
        files = Files(tmp_path / "files", chance)
        service = Service(files, chance)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(service, 2**20), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        largest = max(files.open.values(), key=lambda file: file.size())
        largest.append(chance.randbytes(8_000_000))
        size = largest.size()
        files.slice = lambda: LogSlice(largest, 0, size, 0)  # type: ignore[method-assign]
        writer.write(frame(ApiKey.FETCH, 1) + frame(ApiKey.METADATA, 2))
        got = bytearray(await reader.readexactly(1_000))
        largest.truncate(size // 2)
        with suppress(ConnectionError):
            while data := await reader.read(2**20):
                got += data
        expected = service.expected
        assert service.answered == 1
        assert len(got) <= size // 2 + len(expected) - size
        is_a_beginning = expected.startswith(got)
        assert is_a_beginning
        await service.gone.wait()
        writer.close()
        server.close()
        files.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(scenario(), 60))
