"""Accepts connections with TLS, up to the end of their handshakes.

What a client may cost is limited before its handshake begins: the quota of connections by address,
the descriptors, and the number and duration of handshakes. `asyncio`'s servers tell nothing of a
connection before its handshake is complete, and keep one context for ever. So the sockets are
accepted here.

While the processes of a cluster change from plain text to TLS, a door lets both in. The first byte
tells which it is.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.alerts import send_alert
from chiplog_broker.security.tls import TlsFiles, reason

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
# How long a client that does not read may delay the end of its connection.
SHUTDOWN_TIMEOUT_S: Final = 5.0
MAX_HANDSHAKES: Final = 256
# How long the end of a refused connection waits for the client to read why.
LINGER_S: Final = 0.5
LINGER_BYTES: Final = 64 * 1024
# The pause after the process has run out of descriptors or memory.
PAUSE_S: Final = 0.5
BACKLOG: Final = 1024
# The type of the first record of a TLS connection (RFC 8446, 5.1). The first byte of a request in
# plain text is that of its length, which is 0 before the login.
TLS_HANDSHAKE: Final = b"\x16"


class Owner(Protocol):
    """Decides who may connect, such as an `Acceptor`."""

    def admit(self, host: str, descriptor: int) -> bool:
        """Count a connection from this address; False if there are too many."""

    def leave(self, host: str) -> None:
        """Remove a connection that was counted."""

    def new_connection(self) -> asyncio.BaseProtocol:
        """The protocol of a connection."""

    def handshake_failed(self, peer: str, reason: str) -> None:
        """A client was refused, or has failed, before its handshake was complete. An empty reason:
        it has only left."""


@dataclass(eq=False, slots=True)
class Handshake:
    """A connection whose handshake is not complete."""

    accepted: socket.socket
    host: str
    port: int
    lingering: socket.socket | None = None
    """A duplicate that keeps the connection after its handshake has failed: if it were closed with
    bytes that were not read, the client would get a reset in place of the alert."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def send(self, alert: bytes) -> None:
        """Send the alert of a failed handshake, if the socket takes it."""
        try:
            self.lingering = self.accepted.dup()
            self.lingering.setblocking(False)
            self.lingering.send(alert)
            self.lingering.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the client has gone, or does not read

    def end(self) -> None:
        """Close it: its task sees the end of the stream."""
        for one in filter(None, (self.lingering, self.accepted)):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client has gone

    async def linger(self) -> None:
        """Wait until the client has read the alert and closes the connection, for a moment."""
        if self.lingering is None:
            return
        loop = asyncio.get_running_loop()
        with self.lingering, suppress(OSError):  # also `TimeoutError`
            async with asyncio.timeout(LINGER_S):
                left_bytes = LINGER_BYTES
                while left_bytes > 0 and (read := await loop.sock_recv(self.lingering, left_bytes)):
                    left_bytes -= len(read)


class TlsDoor:
    """Accepts the connections of one listener with TLS."""

    def __init__(
        self,
        files: TlsFiles,
        owner: Owner,
        clock: Clock,
        max_handshakes: int = MAX_HANDSHAKES,
        accepts_plain_text: Callable[[], bool] = lambda: False,
    ) -> None:
        """`accepts_plain_text` returns whether clients may do without TLS at present."""
        self.files = files
        self.accepts_plain_text = accepts_plain_text
        self._owner = owner
        self._clock = clock
        self._max_handshakes = max_handshakes
        self._handshakes: dict[asyncio.BaseProtocol, Handshake] = {}
        self._of_host: Counter[str] = Counter()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[asyncio.Task[None]] = []

    def open(self, descriptors: Iterable[int]) -> None:
        """Accept clients on these bound sockets until `close`."""
        loop = asyncio.get_running_loop()
        for descriptor in descriptors:
            listening = socket.socket(fileno=os.dup(descriptor))
            listening.setblocking(False)
            listening.listen(BACKLOG)
            self._sockets.append(listening)
            self._accepting.append(loop.create_task(self._accept(listening)))

    async def close(self) -> None:
        """Accept no more, and end incomplete handshakes."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        for connection in list(self._handshakes):
            self._drop(connection)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)

    def completed(self, connection: asyncio.BaseProtocol) -> tuple[str, int] | None:
        """The address of a connection whose handshake is complete now: it counts as open, and is no
        business of the door any more. None if it was dropped meanwhile."""
        handshake = self._forget(connection)
        return None if handshake is None else (handshake.host, handshake.port)

    def drop_oldest(self) -> bool:
        """Close the oldest handshake of the address with the most of them; False if there is none.

        A handshake takes a moment, unless the client wants to keep others out.
        """
        if not self._of_host:
            return False
        ((host, _),) = self._of_host.most_common(1)
        oldest = next(one for one, started in self._handshakes.items() if started.host == host)
        self._owner.handshake_failed(str(self._handshakes[oldest]), "there are too many handshakes")
        self._drop(oldest)
        return True

    # -- one connection after the other

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except ConnectionError:
                continue  # the client has left already
            except OSError as error:
                logger.error("not_accepted", extra={"reason": str(error)})
                await self._clock.sleep(PAUSE_S)
                continue
            self._begin(accepted, *address[:2])

    def _begin(self, accepted: socket.socket, host: str, port: int) -> None:
        """Begin the handshake of an accepted connection, if it is admitted."""
        if len(self._handshakes) >= self._max_handshakes:
            self.drop_oldest()
        if not self._owner.admit(host, accepted.fileno()):
            accepted.close()
            return
        connection = self._owner.new_connection()
        handshake = self._handshakes[connection] = Handshake(accepted, host, port)
        self._of_host[host] += 1
        task = asyncio.get_running_loop().create_task(self._shake_hands(connection, handshake))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: asyncio.BaseProtocol, handshake: Handshake) -> None:
        """Complete a handshake, with the certificate and the CAs of this moment."""
        why = ""
        send_alert.set(handshake.send)
        try:
            if not await self._has_tls(handshake):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection, handshake.accepted
                )
            else:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    handshake.accepted,
                    ssl=self.files.current().context,
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except ssl.SSLError as error:
            why = reason(error)
        except (ConnectionAbortedError, TimeoutError):
            why = f"the handshake was not complete within {HANDSHAKE_TIMEOUT_S:g} s"
        except OSError:
            pass  # the client has left
        await handshake.linger()
        if self._forget(connection) is not None:
            self._owner.leave(handshake.host)
            self._owner.handshake_failed(str(handshake), why)

    async def _has_tls(self, handshake: Handshake) -> bool:
        """Whether a client uses TLS, or must. Raises `OSError` if it has sent nothing, and then the
        socket is closed."""
        if not self.accepts_plain_text():
            return True
        try:
            return await begins_with_tls(handshake.accepted)
        except OSError:
            handshake.accepted.close()
            raise

    def _drop(self, connection: asyncio.BaseProtocol) -> None:
        """Close an incomplete handshake; it counts no longer."""
        handshake = self._forget(connection)
        if handshake is not None:
            self._owner.leave(handshake.host)
            handshake.end()

    def _forget(self, connection: asyncio.BaseProtocol) -> Handshake | None:
        """Remove a handshake; None if it was removed before."""
        handshake = self._handshakes.pop(connection, None)
        if handshake is not None:
            self._of_host[handshake.host] -= 1
            if self._of_host[handshake.host] <= 0:
                del self._of_host[handshake.host]
        return handshake


async def begins_with_tls(accepted: socket.socket) -> bool:
    """Whether the first byte that a client sends, which stays unread, begins a TLS handshake.

    Raises `TimeoutError` if nothing comes within `HANDSHAKE_TIMEOUT_S`, and `OSError`.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            await readable.wait()
    finally:
        loop.remove_reader(accepted)
    first = accepted.recv(1, socket.MSG_PEEK)
    if not first:
        raise ConnectionResetError("the client has left")
    return first == TLS_HANDSHAKE
