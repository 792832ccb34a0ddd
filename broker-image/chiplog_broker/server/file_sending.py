"""Sends records from their file to the socket, without a copy through this process.

A transport takes bytes only, so records would be read into memory and copied out of it again. That
would be most of the work of a consumer's fetch. `sendfile` needs no copy, but bypasses the
transport. So it is used only while the transport has nothing to send, and until an answer is sent
completely, nothing else may be sent on its connection.
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
SENDFILE_FROM_BYTES: Final = 64 * 1024
# Bytes of an answer sent in one slice, even if the reader could take more; then other tasks run.
SLICE_BYTES: Final = 4 * 2**20

Piece: TypeAlias = bytes | memoryview | LogSlice


class FileAnswer(NamedTuple):
    """An answer with parts of logs that are still in their files.

    It must be sent before the next await, because the files may be deleted.
    """

    pieces: list[Piece]

    def in_memory(self) -> list[bytes]:
        """Read the parts into memory, for a transport that cannot send from files."""
        return [in_memory(piece) for piece in self.pieces]


def with_files(chunks: list[Chunk]) -> list[bytes] | FileAnswer:
    """An answer whose large log slices stay in their files, if it has any; else only bytes.

    Chunks between such slices are joined, to be sent by one system call.
    """
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
    """Whether a chunk is a log slice that can be sent from its file, and is large enough to save
    time."""
    return (
        isinstance(chunk, LogSlice)
        and chunk.size_bytes >= SENDFILE_FROM_BYTES
        and chunk.file.fileno() is not None
    )


def in_memory(chunk: Chunk) -> bytes:
    """A piece of an answer as bytes; a slice of a log is read now."""
    if isinstance(chunk, LogSlice):
        data = chunk.read()
        # The answer contains its size already: missing bytes would be taken from the next answer.
        assert len(data) == chunk.size_bytes, "a segment file is shorter than its log's end"
        return data
    assert isinstance(chunk, bytes), f"{type(chunk).__name__} in an answer"
    return chunk


class FileSender:
    """Sends `FileAnswer`s on one connection, one after the other."""

    def __init__(
        self,
        transport: asyncio.Transport,
        done: Callable[[], None],
        descriptors_below: int = UNBOUNDED,
    ) -> None:
        """`done` is called when an answer is sent completely that could not be sent at once.

        Files are sent by the kernel, through a duplicate of the transport's socket. If the number
        of its descriptor is not below `descriptors_below`, descriptors are short, and answers are
        sent from memory instead.
        """
        self._transport = transport
        self._done = done
        self._unsent_pieces: deque[Piece] = deque()
        self._waits_for_socket = False
        # The files of unsent pieces, which must stay open while the socket accepts no more bytes.
        self._held_files: list[File] = []
        self._socket = own_socket(transport, descriptors_below)

    @property
    def busy(self) -> bool:
        """Whether a part of an answer is not sent yet."""
        return bool(self._unsent_pieces)

    def send(self, answer: FileAnswer) -> bool:
        """Send an answer. Returns True if the transport may be used again; if False, the rest of
        the answer is sent later, and then `done` is called."""
        if self._socket is None or self._transport.get_write_buffer_size():
            self._transport.writelines(answer.in_memory())
            return True
        self._unsent_pieces.extend(answer.pieces)
        return self._advance(self._socket)

    def close(self) -> None:
        """Release the socket and the files of a closed connection."""
        if self._socket is not None:
            self._watch(self._socket, on=False)
            self._unsent_pieces.clear()
            self._socket.close()
            self._socket = None

    def _advance(self, to: socket.socket) -> bool:
        """Send as much as the socket accepts; returns whether the answer is sent completely."""
        try:
            self._send_some(to)
        except BlockingIOError:
            pass  # the socket accepts no more at the moment
        except OSError as error:
            # The peer disconnected, or the disk failed.
            logger.debug("not_sent", extra={"reason": str(error)})
            self._transport.abort()
            return False
        self._watch(to, on=bool(self._unsent_pieces))
        return not self._unsent_pieces

    def _writable(self, to: socket.socket) -> None:
        """Continue, because the socket accepts more bytes again."""
        if self._advance(to):
            self._done()

    def _send_some(self, to: socket.socket) -> None:
        """Send up to `SLICE_BYTES`. Raises `BlockingIOError` if the socket accepts no more."""
        pieces, allowed_bytes = self._unsent_pieces, SLICE_BYTES
        while pieces and allowed_bytes > 0:
            first = pieces[0]
            if isinstance(first, LogSlice):
                sent = send_slice(to, first, allowed_bytes)
                is_complete = sent == first.size_bytes
                rest: Piece = first.after(sent)
            else:
                # The header of the next piece: both should be in one packet.
                sent = to.send(first, socket.MSG_MORE if len(pieces) > 1 else 0)
                is_complete = sent == len(first)
                rest = memoryview(first)[sent:]
            allowed_bytes -= sent
            if is_complete:
                pieces.popleft()
            else:
                pieces[0] = rest

    def _watch(self, to: socket.socket, *, on: bool) -> None:
        """Start or stop waiting until the socket accepts more.

        During the wait, the files of unsent pieces are kept open, although they may be deleted.
        """
        if on == self._waits_for_socket:
            return
        self._waits_for_socket = on
        loop = asyncio.get_running_loop()
        if on:
            self._held_files = [
                piece.file for piece in self._unsent_pieces if isinstance(piece, LogSlice)
            ]
            for file in self._held_files:
                file.hold()
            loop.add_writer(to, self._writable, to)
        else:
            loop.remove_writer(to)
            for file in self._held_files:
                file.release()
            self._held_files = []


def send_slice(to: socket.socket, piece: LogSlice, max_bytes: int) -> int:
    """Send the beginning of a slice; returns how many bytes the socket accepted."""
    descriptor = piece.file.fileno()
    assert descriptor is not None, "`from_file` is False for a file without descriptor"
    count = min(piece.size_bytes, max_bytes)
    sent = os.sendfile(to.fileno(), descriptor, piece.position, count)
    if sent == 0:
        raise OSError("a segment file is shorter than its log's end")
    return sent


def own_socket(
    transport: asyncio.Transport, descriptors_below: int = UNBOUNDED
) -> socket.socket | None:
    """A duplicate of the transport's socket, which the event loop can watch.

    None if it has none, or if the duplicate's descriptor is not below `descriptors_below`, because
    descriptors are short. Then answers are sent from memory.
    """
    shared = transport.get_extra_info("socket")
    if shared is None:
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
