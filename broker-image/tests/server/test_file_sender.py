"""Answers with files on a socket of our own: how much goes in a turn, and what stays open."""

import asyncio
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.ports.disk import File
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.server import file_sending
from chiplog_broker.server.file_sending import (
    SENDFILE_FROM_BYTES,
    FileAnswer,
    FileSender,
    Piece,
    from_file,
    in_memory,
    own_socket,
    with_files,
)
from chiplog_broker.storage.log import LogSlice
from tests.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from _typeshed import ReadableBuffer

CONTENT = bytes(range(256)) * 8192
"""Two megabytes: more than a socket takes of what nobody reads."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    found = SystemDisk(tmp_path).open("segment", create=True)
    found.append(CONTENT)
    yield found
    found.close()


def part(file: File, position: int, size_bytes: int) -> LogSlice:
    return LogSlice(file, position, size_bytes, 0)


@dataclass
class Line:
    """A sender, and the other end of its connection."""

    sender: FileSender
    transport: asyncio.Transport
    peer: socket.socket
    done: list[bool] = field(default_factory=list)

    async def receive(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            more = await asyncio.get_running_loop().sock_recv(self.peer, size_bytes - len(data))
            assert more, "the connection ended"
            data += more
        return bytes(data)

    async def finished(self) -> None:
        """Return when the sender has said so."""
        while not self.done:  # noqa: ASYNC110 - it is said by a callback that the test counts
            await asyncio.sleep(0)

    def waiting(self) -> int:
        """What the peer could read now, without taking it."""
        return len(self.peer.recv(2**23, socket.MSG_PEEK))


@asynccontextmanager
async def connected() -> "AsyncIterator[Line]":
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    done: list[bool] = []
    sender = FileSender(transport, lambda: done.append(sender.busy))
    try:
        yield Line(sender, transport, peer, done)
    finally:
        sender.close()
        transport.abort()
        await asyncio.sleep(0)
        peer.close()


def test_only_large_slices_stay_in_their_files(file: File) -> None:
    large, other = part(file, 0, SENDFILE_FROM_BYTES), part(file, 9, SENDFILE_FROM_BYTES + 1)
    small = part(file, 3, SENDFILE_FROM_BYTES - 1)
    answer = with_files([b"head", b"er", large, other, small, b"tail"])
    assert answer == FileAnswer([b"header", large, other, small.read() + b"tail"])
    assert isinstance(answer, FileAnswer)
    assert b"".join(answer.in_memory()) == b"".join(
        (b"header", large.read(), other.read(), small.read(), b"tail")
    )
    assert with_files([b"a", small]) == [b"a", small.read()]
    assert with_files([large]) == [large.read()]
    assert with_files([b"a", large]) == FileAnswer([b"a", large])


def test_what_has_no_descriptor_is_read(file: File) -> None:
    memory = MemoryDisk().open("segment", create=True)
    memory.append(CONTENT)
    slices = [part(memory, 0, SENDFILE_FROM_BYTES), part(memory, 5, SENDFILE_FROM_BYTES)]
    assert with_files([*slices]) == [one.read() for one in slices]
    assert [from_file(one) for one in (slices[0], part(file, 0, SENDFILE_FROM_BYTES))] == [
        False,
        True,
    ]


def test_fewer_bytes_than_promised_are_no_answer(file: File) -> None:
    with pytest.raises(AssertionError):
        in_memory(part(file, len(CONTENT) - 5, 6))


def test_what_fits_goes_at_once(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            assert not line.sender.busy
            assert line.sender.send(FileAnswer([b"head", part(file, 7, 1_000)]))
            assert not line.sender.busy
            assert await line.receive(1_004) == b"head" + CONTENT[7:1_007]
            assert line.done == []

    asyncio.run(scenario())


def test_what_does_not_fit_follows_in_order_and_is_done_once(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            pieces: list[Piece] = [
                b"x" * 10**6,
                part(file, 5, 10**6),
                b"y" * 10**6,
                part(file, 0, 10**6),
            ]
            expected = b"".join(FileAnswer(pieces).in_memory())
            for _ in range(2):
                assert not line.sender.send(FileAnswer([*pieces]))
                assert line.sender.busy
                assert await line.receive(len(expected)) == expected
                await line.finished()
                assert line.done == [False]
                line.done.clear()

    asyncio.run(scenario())


def test_a_file_that_waits_stays_open_and_is_given_back(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            assert not line.sender.send(FileAnswer([part(file, 0, len(CONTENT))]))
            file.close()
            assert await line.receive(len(CONTENT)) == CONTENT
            await line.finished()
            assert file.fileno() is None or not _is_open(file)

    asyncio.run(scenario())


def test_a_connection_that_ends_gives_files_and_descriptor_back(file: File) -> None:
    async def scenario() -> None:
        before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
        async with connected() as line:
            assert not line.sender.send(FileAnswer([part(file, 0, len(CONTENT))]))
            file.close()
            line.sender.close()
            assert not line.sender.busy
            line.sender.close()
        assert len(set(os.listdir("/proc/self/fd"))) < len(before)  # noqa: PTH208

    asyncio.run(scenario())


def test_where_the_transport_still_sends_it_sends_this_too(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            line.transport.write(b"z" * 10**6)
            assert line.transport.get_write_buffer_size()
            assert line.sender.send(FileAnswer([b"head", part(file, 0, 10**6)]))
            assert not line.sender.busy
            received = await line.receive(2 * 10**6 + 4)
            assert received == b"z" * 10**6 + b"head" + CONTENT[: 10**6]

    asyncio.run(scenario())


def test_a_slice_has_a_limit(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sending, "SLICE_BYTES", 1_000)

    async def scenario() -> None:
        async with connected() as line:
            pieces: list[Piece] = [
                b"x" * 300,
                part(file, 0, 400),
                part(file, 0, 299),
                part(file, 0, 2_001),
            ]
            expected = b"".join(FileAnswer(pieces).in_memory())
            assert not line.sender.send(FileAnswer([*pieces]))
            assert line.waiting() == 1_000
            assert await line.receive(len(expected)) == expected

    asyncio.run(scenario())


def test_a_piece_that_ends_with_the_slice_ends_it(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_sending, "SLICE_BYTES", 1_000)

    async def scenario() -> None:
        async with connected() as line:
            assert not line.sender.send(FileAnswer([part(file, 0, 1_000), part(file, 0, 10)]))
            assert line.waiting() == 1_000
            assert await line.receive(1_010) == CONTENT[:1_000] + CONTENT[:10]

    asyncio.run(scenario())


def test_a_file_that_is_too_short_ends_the_connection(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            too_long = part(file, len(CONTENT) - 10, 11)
            assert not line.sender.send(FileAnswer([too_long]))
            assert line.transport.is_closing()
            assert line.done == []

    asyncio.run(scenario())


def test_what_precedes_a_file_travels_with_it(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[int] = []

    class Noting(socket.socket):
        def send(self, data: "ReadableBuffer", given: int = 0) -> int:
            flags.append(given)
            return super().send(data, given)

    monkeypatch.setattr(socket, "socket", Noting)

    async def scenario() -> None:
        async with connected() as line:
            assert line.sender.send(FileAnswer([b"head", part(file, 0, 100), b"tail"]))
            assert flags == [socket.MSG_MORE, 0]
            assert line.sender.send(FileAnswer([b"head", part(file, 0, 100)]))
            assert flags[2:] == [socket.MSG_MORE]

    asyncio.run(scenario())


def test_a_transport_without_a_socket_has_no_duplicate(file: File) -> None:
    async def scenario() -> None:
        async with connected() as line:
            plain = line.transport.get_extra_info("socket")
            found = own_socket(asyncio.Transport({"socket": plain}))
            assert found is not None
            assert found.fileno() != plain.fileno()
            assert not found.getblocking()
            found.close()
            assert own_socket(asyncio.Transport({})) is None

    asyncio.run(scenario())


def test_where_descriptors_are_short_the_duplicate_is_closed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Duplicates get the lowest free number from 500 on: nothing else in this process does."""
    free = 500
    monkeypatch.setattr(os, "dup", lambda shared: fcntl.fcntl(shared, fcntl.F_DUPFD, free))

    async def scenario() -> None:
        async with connected() as line:
            assert line.sender._socket is not None
            line.sender.close()
            assert own_socket(line.transport, free) is None
            sender = FileSender(line.transport, lambda: None, free)
            own = own_socket(line.transport, free + 1)
            assert own is not None
            assert own.fileno() == free
            own.close()
            sender.close()

    asyncio.run(scenario())


def _is_open(file: File) -> bool:
    descriptor = file.fileno()
    return descriptor is not None and Path(f"/proc/self/fd/{descriptor}").exists()
