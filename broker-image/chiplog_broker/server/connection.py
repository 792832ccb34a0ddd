"""One client's connection: receives requests, and sends answers in the order of the requests.

A request starts when its frame is complete. Most are answered immediately. A Produce that waits
until its records are safe, or a Fetch that waits for records, gets a place in the queue of answers,
which is filled later. Behind a waiting Produce further Produces may start, so that one sync of the
disk serves all of them; after any other waiting request no further request starts. A follower's
next request ends the wait of its Fetch.

Reading is limited by memory: the socket is not read while no request may start or no memory is
available for one, and a client that does not receive its answers is not served. Nor is it read
while its client is throttled (`throttling`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from chiplog_broker.server.closed_transport import CLOSED
from chiplog_broker.server.file_sending import FileAnswer, FileSender, Piece
from chiplog_broker.server.memory import Account
from chiplog_broker.server.peer import Peer
from chiplog_broker.server.tls_sending import TlsSender, is_encrypted
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import FrameReader
from chiplog_wire.protocol.requests import Request, UnsupportedApiVersions, parse_request

# The number of Produce requests of one connection that may wait for the disk together.
MAX_WAITING: Final = 64

# The event loop's timers may run this much too early.
TIMER_RESOLUTION_S: Final = 0.001

Answer = list[bytes]


class BlockingRequest(NamedTuple):
    """A request that is handled while no other request of its connection is: its frame in the read
    buffer is still in use."""

    future: asyncio.Future[Answer]


Started = Answer | FileAnswer | asyncio.Future[Answer] | BlockingRequest
AnyRequest = Request | UnsupportedApiVersions


class Service(Protocol):
    """Handles the requests of connections: the broker itself, or the login in front of it."""

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        """Start a request; returns its answer or a future of it. An empty list means no answer.

        Views of the request belong to the frame and are invalid when this returns, unless it
        returns `BlockingRequest`. Raises `ProtocolViolation`; then the connection is closed.
        """

    def connected(self, connection: "Connection") -> Peer | None:
        """Accept a client that has connected; returns None to refuse it."""

    def unsent(self, change_bytes: int) -> None:
        """Count a change of the bytes that wait to be sent because a client receives slowly."""

    def disconnected(self, connection: "Connection", why: Exception | None) -> None:
        """Remove a closed connection; `why` is a `ProtocolViolation`, or the transport's error or
        None."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of one client connection. Runs on the event loop's thread only."""

    def __init__(self, service: Service, max_frame_bytes: int) -> None:
        self._service = service
        self._reader = FrameReader(max_frame_bytes, are_requests=True)
        self._waiting: deque[Answer | asyncio.Future[Answer]] = deque()
        # Whether no request may start before the last one is answered.
        self._is_blocked = False
        self._waits_for_records = False
        # Whether the transport can take more bytes to send.
        self._may_write = True
        self._unsent_bytes = 0
        self._files: FileSender | None = None
        # Sends everything on a connection with TLS; None without it.
        self._tls: TlsSender | None = None
        self._finishing = False
        self._reading = True
        self._memory: Account | None = None
        # False while the rest of a request waits for memory.
        self._has_memory = True
        # Continues when the client is not throttled any more; None unless it is.
        self._unmute: asyncio.TimerHandle | None = None
        # A complete request that may not start yet.
        self._held_request: AnyRequest | None = None
        self._violation: ProtocolViolation | None = None
        self._transport: asyncio.Transport
        self._write: Callable[[Answer], None]
        self.parse: Callable[[memoryview], AnyRequest] = parse_request
        """Parses a frame; a login may have frames of another kind."""
        self.peer: Peer
        self.bytes_in = 0
        self.frames_in = 0

    @property
    def mid_frame(self) -> bool:
        """Whether the connection reads, and has received only a part of a request so far."""
        return self._reading and self._reader.pending_bytes > 0

    @property
    def idle(self) -> bool:
        """Whether no request waits for its answer."""
        return not self._waiting

    @property
    def is_flooded(self) -> bool:
        """Whether the client makes TLS itself send without end, and does not receive it."""
        return self._tls is not None and self._tls.is_flooded

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection with the service, which may refuse it."""
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.writelines
        if is_encrypted(self._transport):
            self._tls = TlsSender(self._transport, self._sent)
            self._write = self._write_encrypted
        peer = self._service.connected(self)
        if peer is None:
            self._transport.abort()
        else:
            self.peer = peer
            self._memory = self._reader.memory = peer.memory

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        self._reader.buffer_updated(nbytes)
        self._start_requests()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """The transport has too many unsent bytes: start no request before it has sent them."""
        self._may_write = False
        if self._tls is not None:
            self._tls.paused()
            self._count_unsent(self._tls.held_bytes)
            return
        self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The transport has sent most of its bytes: requests may start, unless answers wait."""
        if self._tls is not None:
            self._tls.resumed()
            self._count_unsent(self._tls.held_bytes)
            return
        self._may_write = True
        self._count_unsent(0)
        self._start_requests()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel waiting requests and release all memory of the closed connection."""
        for started in self._waiting:
            if isinstance(started, asyncio.Future):
                started.cancel()
        self._waiting.clear()
        if self._files is not None:
            self._files.close()
        if self._tls is not None:
            self._tls.close()
            self._tls = None
        if self._unmute is not None:
            self._unmute.cancel()
        self._count_unsent(0)
        # Released now, because objects in reference cycles are freed only by a garbage collection.
        self._held_request = None
        self._reader.drop()
        if self._memory is not None:
            self._memory.close()
        self._service.disconnected(self, self._violation or exc)
        self._transport, self._write = CLOSED, CLOSED.writelines

    # -- requests

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def _is_sending(self) -> bool:
        """Whether a part of an answer was not given to the transport yet."""
        return (self._files is not None and self._files.busy) or (
            self._tls is not None and self._tls.busy
        )

    def abort(self) -> None:
        """Close the connection without answering waiting requests."""
        self._transport.abort()

    def finish(self) -> None:
        """Start no more requests, and close the connection once the started ones are answered.

        A Fetch that waits for records is not answered: it may wait for a long time.
        """
        self._finishing = True
        if self._waits_for_records or (self.idle and not self._is_sending):
            self._transport.close()

    def open(self, service: Service, max_frame_bytes: int) -> None:
        """Continue with another service and frame size, because the client has logged in."""
        self._service = service
        self._reader.max_frame_bytes = max_frame_bytes
        self.parse = parse_request

    def unmute(self) -> None:
        """Read again, because quotas have changed."""
        if self.peer.muted_until_s:
            self.peer.muted_until_s = 0.0
            if self._unmute is not None:  # or the next, shorter throttle would last until then
                self._unmute.cancel()
                self._unmute = None
            self._start_requests()

    def trim(self) -> None:
        """Release the read buffer of an idle connection."""
        if self.idle and self._held_request is None:
            self._reader.trim()

    def _count_unsent(self, size_bytes: int) -> None:
        """Report the size of the transport's write buffer to the service and the memory account."""
        self._service.unsent(size_bytes - self._unsent_bytes)
        self._unsent_bytes = size_bytes
        if self._memory is not None:
            self._memory.unsent(size_bytes)

    def _start_requests(self) -> None:
        """Start the complete requests that may start. The socket is read only if none is left."""
        try:
            while self._may_start():
                request = self._held_request or self._next_request()
                self._held_request = None
                if request is None:
                    if self._memory is not None and self._memory.is_wanted:
                        # A client that is always busy would keep its buffer, and others would get
                        # no memory.
                        self._reader.shrink()
                    self._set_reading(on=True)
                    return
                if self._waiting and not is_produce(request):
                    # It must wait for the requests before it. Its frame stays in the buffer,
                    # because the socket is not read.
                    self._held_request = request
                    break
                self._start(request)
            if self._next_ends_wait:
                self._held_request = self._next_request()
                if self._held_request is None:
                    self._set_reading(on=True)
                    return
                assert self.peer.end_wait is not None, "`_next_ends_wait` has checked that"
                self.peer.end_wait()
        except ProtocolViolation as violation:
            self._violation = violation
            self._transport.abort()
            return
        self._set_reading(on=False)

    @property
    def _next_ends_wait(self) -> bool:
        """Whether a broker's Fetch waits, which is answered as soon as another request arrives."""
        return (
            self._waits_for_records
            and self._held_request is None
            and self.peer.end_wait is not None
            and self._may_write
            and not self._finishing
            and not self._transport.is_closing()
        )

    def _may_start(self) -> bool:
        """Whether another request may start now."""
        return (
            self._may_write
            and not self._finishing
            and not self._is_blocked
            and len(self._waiting) < MAX_WAITING
            and not self._transport.is_closing()
            and not (self.peer.muted_until_s and self._is_muted())
        )

    def _is_muted(self) -> bool:
        """Whether the client is throttled, so that nothing is read; then it is read later."""
        loop = asyncio.get_running_loop()
        if self.peer.muted_until_s - loop.time() < TIMER_RESOLUTION_S:
            self.peer.muted_until_s = 0.0
            return False
        if self._unmute is None:
            self._unmute = loop.call_at(self.peer.muted_until_s, self._mute_ended)
        return True

    def _mute_ended(self) -> None:
        """Read again, unless the client was throttled for longer in the meantime."""
        self._unmute = None
        self._start_requests()

    def _next_request(self) -> AnyRequest | None:
        """The next complete request; None if it is not received completely yet."""
        frame = self._reader.next_frame()
        if frame is None:
            return None
        self.frames_in += 1
        return self.parse(frame)

    def _start(self, request: AnyRequest) -> None:
        """Start a request. Its answer is sent at once, or gets a place in the queue of answers."""
        started = self._service.start(request, self.peer)
        if isinstance(started, BlockingRequest):
            self._reader.detach()
            self._wait(started.future, blocks_others=True)
        elif isinstance(started, asyncio.Future):
            self._wait(started, blocks_others=not is_produce(request))
            self._waits_for_records = is_fetch(request)
        elif isinstance(started, FileAnswer):
            assert not self._waiting, "only a Fetch reads files, and it starts when nothing waits"
            self._send_files(started)
        elif self._waiting:
            self._waiting.append(started)
        elif started:
            self._write(started)

    def _wait(self, future: asyncio.Future[Answer], *, blocks_others: bool) -> None:
        """Give a future answer its place in the queue. `blocks_others`: no request may start before
        it."""
        self._waiting.append(future)
        self._is_blocked = blocks_others
        future.add_done_callback(self._answered)

    def _send_files(self, answer: FileAnswer) -> None:
        """Send an answer from its files; nothing else is sent before it is complete."""
        if self._tls is not None:
            self._send_encrypted(self._tls, answer.pieces)
            return
        if self._files is None:
            self._files = FileSender(self._transport, self._sent, self.peer.descriptors_below)
        if not self._files.send(answer):
            self._may_write = False

    def _write_encrypted(self, answer: Answer) -> None:
        """Send an answer with TLS."""
        assert self._tls is not None, "only a connection with TLS writes this way"
        self._send_encrypted(self._tls, answer)

    def _send_encrypted(self, sender: TlsSender, answer: Sequence[Piece]) -> None:
        if not sender.send(answer):
            self._may_write = False
            self._count_unsent(sender.held_bytes)

    def _sent(self) -> None:
        """Continue after answers were sent that could not be sent at once."""
        self._may_write = True
        if self._tls is not None:
            self._count_unsent(0)
        if self._finishing:
            self._transport.close()
        self._start_requests()

    def _answered(self, _: asyncio.Future[Answer]) -> None:
        """Send the answers that are ready, up to the first one that is not, so that their order is
        that of the requests. Then start further requests."""
        ready: Answer = []
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, asyncio.Future):
                if not first.done():
                    break
                if first.cancelled():  # the connection is closed
                    return
                if (why := first.exception()) is not None:
                    self._failed(why)
                    return
                ready += first.result()
            else:
                ready += first
            self._waiting.popleft()
        if ready and not self._transport.is_closing():
            self._write(ready)
        if self._memory is not None:
            self._memory.written()
        if not self._waiting:
            self._is_blocked = self._waits_for_records = False
            if self._finishing and not self._is_sending:
                self._transport.close()
        self._start_requests()

    def _failed(self, why: BaseException) -> None:
        """A request ended with an error: close the connection without an answer."""
        if isinstance(why, ProtocolViolation):
            self._violation = why
        self._transport.abort()  # other errors were logged by the task

    def _set_reading(self, *, on: bool) -> None:
        """Read the socket or stop reading it. It is not read while there is no memory for the rest
        of an incomplete request."""
        on = on and self._has_memory
        if on and self._memory is not None and (wanted_bytes := self._reader.wanted_bytes):
            on = self._has_memory = self._memory.claim(wanted_bytes, self._granted)
        if on != self._reading and not self._transport.is_closing():
            self._reading = on
            if on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _granted(self) -> None:
        """Read on, because there is memory for the rest of a request now."""
        self._has_memory = True
        self._start_requests()


def is_fetch(request: AnyRequest) -> bool:
    """Whether this is a Fetch, which may wait for records of other clients."""
    return isinstance(request, Request) and request.header.api_key is ApiKey.FETCH


def is_produce(request: AnyRequest) -> bool:
    """Whether this is a Produce: while it waits, further Produce requests may start."""
    return isinstance(request, Request) and request.header.api_key is ApiKey.PRODUCE
