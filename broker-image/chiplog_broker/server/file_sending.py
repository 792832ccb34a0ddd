"""Records from their file to the socket, without a copy through this process.

A transport takes bytes only: what it sends is read into memory first and copied out of it
again, which was most of what a consumer cost. `sendfile` does neither, but works on the
socket itself. So it runs beside the transport, and only while that has nothing to send;
until an answer is out, nothing else may be given to either.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, cast

from chiplog_broker.ports.disk import File
from chiplog_broker.server.memory import UNBOUNDED
from chiplog_broker.storage.log import LogSlice
from chiplog_wire.protocol.messages import Chunk

logger = logging.getLogger(__name__)

# Smaller slices are read: sendfile's extra system calls would cost more.
FROM_BYTES: Final = 64 * 1024
# Bytes of an answer sent in one slice, even if the reader could take more; then other tasks run.
SLICE_BYTES: Final = 4 * 2**20

Piece: TypeAlias = bytes | memoryview | LogSlice


class FileAnswer(NamedTuple):
    """An answer whose slices are still in their files: send it before the next await."""

    pieces: list[Piece]

    def in_memory(self) -> list[bytes]:
        """For transports that cannot send from a file."""
        return [in_memory(piece) for piece in self.pieces]


def with_files(chunks: list[Chunk]) -> list[bytes] | FileAnswer:
    """An answer whose large slices stay in their files where possible."""
    if len(chunks) == 1 or not any(map(from_file, chunks)):
        return [in_memory(chunk) for chunk in chunks]
    pieces: list[Piece] = []
    for is_slice, group in groupby(chunks, from_file):
        if is_slice:
            pieces += cast("Iterable[LogSlice]", group)
        else:
            pieces.append(b"".join(map(in_memory, group)))
    return FileAnswer(pieces)


def from_file(chunk: Chunk) -> bool:
    """Whether sending this slice from its file is possible and cheaper."""
    return (
        isinstance(chunk, LogSlice)
        and chunk.size_bytes >= FROM_BYTES
        and chunk.file.fileno() is not None
    )


def in_memory(chunk: Chunk) -> bytes:
    """A piece of an answer as bytes; a slice of a log is read now."""
    if isinstance(chunk, LogSlice):
        data = chunk.read()
        # The answer contains its size already: missing bytes would be taken from the next answer.
        assert len(data) == chunk.size_bytes, "a segment is shorter than its log"
        return data
    assert isinstance(chunk, bytes), f"{type(chunk).__name__} in an answer"
    return chunk


class FileSender:
    """Sends such answers on one connection, in order."""

    def __init__(
        self,
        transport: asyncio.Transport,
        done: Callable[[], None],
        descriptors_below: int = UNBOUNDED,
    ) -> None:
        """`done` is called when an answer that could not be sent at once is sent."""
        self._transport = transport
        self._done = done
        self._unsent_pieces: deque[Piece] = deque()
        self._watching = False
        # Files that must stay open while the socket accepts no more.
        self._held: list[File] = []
        self._socket = own_socket(transport, descriptors_below)

    @property
    def busy(self) -> bool:
        """Whether an answer is being sent."""
        return bool(self._unsent_pieces)

    def send(self, answer: FileAnswer) -> bool:
        """Whether the transport may be used again; if not, `done` is called later."""
        if self._socket is None or self._transport.get_write_buffer_size():
            self._transport.writelines(answer.in_memory())
            return True
        self._unsent_pieces.extend(answer.pieces)
        return self._advance(self._socket)

    def close(self) -> None:
        """The connection is closed."""
        if self._socket is not None:
            self._watch(self._socket, on=False)
            self._unsent_pieces.clear()
            self._socket.close()
            self._socket = None

    def _advance(self, to: socket.socket) -> bool:
        """Send what the socket accepts; returns whether that was all."""
        try:
            self._send_some(to)
        except BlockingIOError:
            pass
        except OSError as error:
            # The peer disconnected, or the disk failed.
            logger.debug("not_sent", extra={"reason": str(error)})
            self._transport.abort()
            return False
        self._watch(to, on=bool(self._unsent_pieces))
        return not self._unsent_pieces

    def _writable(self, to: socket.socket) -> None:
        if self._advance(to):
            self._done()

    def _send_some(self, to: socket.socket) -> None:
        left, room_bytes = self._unsent_pieces, SLICE_BYTES
        while left and room_bytes > 0:
            first = left[0]
            if isinstance(first, LogSlice):
                sent = send_slice(to, first, room_bytes)
                is_complete = sent == first.size_bytes
                rest: Piece = first.after(sent)
            else:
                # This is the header of what follows, so both should be in one packet.
                sent = to.send(first, socket.MSG_MORE if len(left) > 1 else 0)
                is_complete = sent == len(first)
                rest = memoryview(first)[sent:]
            room_bytes -= sent
            if is_complete:
                left.popleft()
            else:
                left[0] = rest

    def _watch(self, to: socket.socket, *, on: bool) -> None:
        """Start or stop waiting until the socket accepts more."""
        if on == self._watching:
            return
        self._watching = on
        loop = asyncio.get_running_loop()
        if on:
            self._held = [
                piece.file for piece in self._unsent_pieces if isinstance(piece, LogSlice)
            ]
            for file in self._held:
                file.hold()
            loop.add_writer(to, self._writable, to)
        else:
            loop.remove_writer(to)
            for file in self._held:
                file.release()
            self._held = []


def send_slice(to: socket.socket, piece: LogSlice, most_bytes: int) -> int:
    """Send the beginning of a slice; returns how many bytes the socket accepted."""
    descriptor = piece.file.fileno()
    assert descriptor is not None, "what has no descriptor is sent from memory"
    count = min(piece.size_bytes, most_bytes)
    sent = os.sendfile(to.fileno(), descriptor, piece.position, count)
    if sent == 0:
        raise OSError("a segment is shorter than its log")
    return sent


def own_socket(
    transport: asyncio.Transport, descriptors_below: int = UNBOUNDED
) -> socket.socket | None:
    """A duplicate of the transport's socket, which the event loop can watch.

    None if the transport changes bytes (TLS), or if descriptors are short: then answers are sent
    from memory.
    """
    shared = transport.get_extra_info("socket")
    if shared is None or transport.get_extra_info("sslcontext") is not None:
        return None
    try:
        descriptor = os.dup(shared.fileno())
    except OSError:
        return None
    if descriptor >= descriptors_below:
        os.close(descriptor)
        return None
    own = socket.socket(fileno=descriptor)
    own.setblocking(False)
    return own
