"""Sends answers on a connection with TLS, in pieces.

A transport with TLS encrypts all that it is given at once, and holds the result in two buffers, of
which it reports only one. An answer of 55 MB would occupy the loop and be held twice. So a
transport gets the next piece only when it has passed on the last one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from chiplog_broker.ports.disk import File
from chiplog_broker.server.closed_transport import CLOSED
from chiplog_broker.server.file_sending import Piece
from chiplog_broker.storage.log import LogSlice

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 256 * 1024
# Bytes sent in one turn, which are encrypted in about a millisecond; then other tasks run.
TURN_BYTES: Final = 2**20
# What the transport may hold at most behind the buffer that it reports: its limit, and a piece.
HIDDEN_BYTES: Final = 64 * 1024 + PIECE_BYTES
# More than this never waits in the transport, unless the client makes OpenSSL itself answer: for
# example, to each request for new keys (KeyUpdate of TLS 1.3).
MAX_IN_TRANSPORT_BYTES: Final = 2**20
# Bytes that are received while the connection is not read, before the transport stops, too.
READ_AHEAD_BYTES: Final = 64 * 1024


def is_encrypted(transport: asyncio.Transport) -> bool:
    """Whether a transport uses TLS."""
    return transport.get_extra_info("sslcontext") is not None


class TlsSender:
    """Sends the answers of one connection, one after the other."""

    def __init__(self, transport: asyncio.Transport, done: Callable[[], None]) -> None:
        """`done` is called when all answers are sent, if they could not be sent at once."""
        self._transport = transport
        self._done = done
        self._unsent_pieces: deque[Piece] = deque()
        self._unsent_bytes = 0
        """Bytes of the unsent pieces that are in memory."""
        self._is_paused = False
        self._turn: asyncio.Handle | None = None
        # The files of unsent pieces, which must stay open while the transport takes no more.
        self._held_files: list[File] = []
        # Paused as soon as a byte waits in the buffer that is reported.
        transport.set_write_buffer_limits(high=1)
        transport.set_read_buffer_limits(high=READ_AHEAD_BYTES)  # type: ignore[attr-defined]

    @property
    def busy(self) -> bool:
        """Whether a part of an answer was not given to the transport yet."""
        return bool(self._unsent_pieces)

    @property
    def is_flooded(self) -> bool:
        """Whether the client makes OpenSSL send more than the client receives. Such bytes are in no
        memory account, and no limit of the transport stops them."""
        return self._transport.get_write_buffer_size() > MAX_IN_TRANSPORT_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes in memory that the client has not received; at most, since the transport does not
        report all of its own."""
        in_transport = self._transport.get_write_buffer_size()
        return self._unsent_bytes + in_transport + (HIDDEN_BYTES if self._is_paused else 0)

    def send(self, answer: Sequence[Piece]) -> bool:
        """Send an answer. Returns True if the transport has taken all of it; if False, the rest is
        sent later, and then `done` is called.

        Parts of logs must be sent, or be in `answer`, before the next await.
        """
        self._unsent_pieces.extend(answer)
        self._unsent_bytes += sum(len(one) for one in answer if not isinstance(one, LogSlice))
        return self._turn is None and self._advance()

    def paused(self) -> None:
        """The transport takes no more at the moment."""
        self._is_paused = True

    def resumed(self) -> None:
        """The transport takes more again."""
        self._is_paused = False
        if self._turn is None:
            self._next_turn()

    def close(self) -> None:
        """Release the files and the transport of a closed connection."""
        if self._turn is not None:
            self._turn.cancel()
        self._transport = CLOSED
        self._unsent_pieces.clear()
        self._unsent_bytes = 0
        self._hold(on=False)

    def _next_turn(self) -> None:
        """Continue, and call `done` if everything is sent now."""
        self._turn = None
        if self._advance():
            self._done()

    def _advance(self) -> bool:
        """Send as much as the transport takes; returns whether that is everything."""
        try:
            self._send_some()
        except OSError as error:  # the disk failed
            logger.debug("not_sent", extra={"reason": str(error)})
            self._transport.abort()
            return False
        self._hold(on=self.busy)
        if self.busy and not self._is_paused:
            self._turn = asyncio.get_running_loop().call_soon(self._next_turn)
        return not self.busy and not self._is_paused

    def _send_some(self) -> None:
        """Send up to `TURN_BYTES`. Raises `OSError` if records cannot be read."""
        allowed_bytes = TURN_BYTES
        while self._unsent_pieces and not self._is_paused and allowed_bytes > 0:
            piece = self._next_piece()
            allowed_bytes -= sum(map(len, piece))
            self._transport.writelines(piece)

    def _next_piece(self) -> list[bytes | memoryview]:
        """Take up to `PIECE_BYTES` of what is to be sent; parts of logs are read now."""
        pieces, taken = self._unsent_pieces, list[bytes | memoryview]()
        free_bytes = PIECE_BYTES
        while pieces and free_bytes > 0:
            first = pieces[0]
            size_bytes = first.size_bytes if isinstance(first, LogSlice) else len(first)
            count = min(size_bytes, free_bytes)
            if isinstance(first, LogSlice):
                taken.append(beginning(first, count))
            else:
                taken.append(first if count == size_bytes else memoryview(first)[:count])
                self._unsent_bytes -= count
            free_bytes -= count
            if count == size_bytes:
                pieces.popleft()
            else:
                pieces[0] = after(first, count)
        return taken

    def _hold(self, *, on: bool) -> None:
        """Keep the files of unsent pieces open, although they may be deleted, or release them."""
        if on == bool(self._held_files):
            return
        if on:
            self._held_files = [
                piece.file for piece in self._unsent_pieces if isinstance(piece, LogSlice)
            ]
            for file in self._held_files:
                file.hold()
        else:
            for file in self._held_files:
                file.release()
            self._held_files = []


def beginning(part: LogSlice, size_bytes: int) -> bytes:
    """The first bytes of a part of a log. Raises `OSError` if they cannot be read."""
    data = part.file.read(part.position, size_bytes)
    if len(data) != size_bytes:
        raise OSError("a segment file is shorter than its log's end")
    return data


def after(piece: Piece, size_bytes: int) -> Piece:
    """A piece without its first bytes."""
    if isinstance(piece, LogSlice):
        return piece.after(size_bytes)
    return memoryview(piece)[size_bytes:]
