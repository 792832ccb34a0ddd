"""One client's connection: receives requests, and sends answers in the order of the requests.

A request starts when its frame is complete. Most are answered immediately. A Produce that waits
until its records are safe, or a Fetch that waits for records, leaves a place in the queue that is
filled later. Behind a waiting Produce further Produces may start, so that one sync of the disk
serves all of them; behind any other waiting request nothing is read.

Reading is limited by memory: the socket is not read while no request may start or no memory is
available for one, and a client that does not receive its answers is not served.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

from chiplog_broker.server.file_sending import FileAnswer, FileSender
from chiplog_broker.server.memory import Account
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import FrameReader
from chiplog_wire.protocol.requests import Request, UnsupportedApiVersions, parse_request

# The number of Produce requests of one connection that may wait for the disk together.
MAX_WAITING: Final = 64

Answer = list[bytes]


class Alone(NamedTuple):
    """A request whose frame is still in use: no other request starts before it ends."""

    future: asyncio.Future[Answer]


Started = Answer | FileAnswer | asyncio.Future[Answer] | Alone
AnyRequest = Request | UnsupportedApiVersions


class Service(Protocol):
    """Handles the requests of connections."""

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        """Start a request; an answer without pieces sends nothing.

        Views of the request belong to the frame and are invalid when this returns, unless it
        returns `Alone`. Raises `ProtocolViolation`; then the connection is closed.
        """

    def connected(self, connection: "Connection") -> Peer | None:
        """A client connected; None refuses it."""

    def unsent(self, change_bytes: int) -> None:
        """The unsent bytes of a slow client have changed by this many."""

    def disconnected(self, connection: "Connection", why: Exception | None) -> None:
        """The connection is closed; `why` is a `ProtocolViolation` or the transport's error."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of one client connection. Runs on the event loop's thread only."""

    def __init__(self, service: Service, max_frame_bytes: int) -> None:
        self._service = service
        self._reader = FrameReader(max_frame_bytes, are_requests=True)
        self._waiting: deque[Answer | asyncio.Future[Answer]] = deque()
        # Whether the last waiting request lets no other request start.
        self._waits_alone = False
        self._waits_for_records = False
        self._may_write = True
        self._unsent_bytes = 0
        self._files: FileSender | None = None
        self._finishing = False
        self._reading = True
        self._memory: Account | None = None
        self._has_room = True
        self._held: AnyRequest | None = None
        self._violation: ProtocolViolation | None = None
        self._transport: asyncio.Transport
        self.parse: Callable[[memoryview], AnyRequest] = parse_request
        """Parses a frame; a login may have frames of another kind."""
        self.peer: Peer
        self.bytes_in = 0
        self.frames_in = 0

    @property
    def mid_frame(self) -> bool:
        """Whether a request has been received in part."""
        return self._reading and self._reader.pending_bytes > 0

    @property
    def idle(self) -> bool:
        """Whether no request waits for its answer."""
        return not self._waiting

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = self._service.connected(self)
        if peer is None:
            self._transport.abort()
        else:
            self.peer = peer
            self._memory = self._reader.room = peer.memory

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        self._reader.buffer_updated(nbytes)
        self._start_requests()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write = False
        self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._may_write = True
        self._count_unsent(0)
        self._start_requests()

    def connection_lost(self, exc: Exception | None) -> None:
        for started in self._waiting:
            if isinstance(started, asyncio.Future):
                started.cancel()
        self._waiting.clear()
        if self._files is not None:
            self._files.close()
        self._count_unsent(0)
        # Released now, because objects in reference cycles are freed only by a garbage collection.
        self._held = None
        self._reader.drop()
        if self._memory is not None:
            self._memory.close()
        self._service.disconnected(self, self._violation or exc)

    # -- requests

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def _sends_files(self) -> bool:
        return self._files is not None and self._files.busy

    def abort(self) -> None:
        """Close the connection without answering waiting requests."""
        self._transport.abort()

    def finish(self) -> None:
        """Start no more requests; close once those that were started are answered and sent.

        Fetches that wait for records are not waited for.
        """
        self._finishing = True
        if self._waits_for_records or (self.idle and not self._sends_files):
            self._transport.close()

    def open(self, service: Service, max_frame_bytes: int) -> None:
        """The client has logged in; another service handles it from now on."""
        self._service = service
        self._reader.max_frame_bytes = max_frame_bytes
        self.parse = parse_request

    def trim(self) -> None:
        """Release the read buffer of an idle connection."""
        if self.idle and self._held is None:
            self._reader.trim()

    def _count_unsent(self, size_bytes: int) -> None:
        self._service.unsent(size_bytes - self._unsent_bytes)
        self._unsent_bytes = size_bytes
        if self._memory is not None:
            self._memory.unsent(size_bytes)

    def _start_requests(self) -> None:
        """Start all complete requests that may start; read on only if all could."""
        try:
            while self._may_start():
                request = self._held or self._next_request()
                self._held = None
                if request is None:
                    if self._memory is not None and self._memory.is_wanted:
                        # A client that is always busy would keep its buffer, and others would get
                        # no memory.
                        self._reader.shrink()
                    self._set_reading(on=True)
                    return
                if self._waiting and not is_produce(request):
                    self._held = request  # it may not overtake; its frame stays where it is
                    break
                self._start(request)
        except ProtocolViolation as violation:
            self._violation = violation
            self._transport.abort()
            return
        self._set_reading(on=False)

    def _may_start(self) -> bool:
        return (
            self._may_write
            and not self._finishing
            and not self._waits_alone
            and len(self._waiting) < MAX_WAITING
            and not self._transport.is_closing()
        )

    def _next_request(self) -> AnyRequest | None:
        frame = self._reader.next_frame()
        if frame is None:
            return None
        self.frames_in += 1
        return self.parse(frame)

    def _start(self, request: AnyRequest) -> None:
        started = self._service.start(request, self.peer)
        if isinstance(started, Alone):
            self._reader.detach()
            self._wait(started.future, alone=True)
        elif isinstance(started, asyncio.Future):
            self._wait(started, alone=not is_produce(request))
            self._waits_for_records = is_fetch(request)
        elif isinstance(started, FileAnswer):
            assert not self._waiting, "what reads records starts behind nothing"
            self._send_files(started)
        elif self._waiting:
            self._waiting.append(started)
        elif started:
            self._transport.writelines(started)

    def _wait(self, future: asyncio.Future[Answer], *, alone: bool) -> None:
        self._waiting.append(future)
        self._waits_alone = alone
        future.add_done_callback(self._answered)

    def _send_files(self, answer: FileAnswer) -> None:
        if self._files is None:
            self._files = FileSender(self._transport, self._sent_files, self.peer.descriptors_below)
        if not self._files.send(answer):
            self._may_write = False

    def _sent_files(self) -> None:
        self._may_write = True
        if self._finishing:
            self._transport.close()
        self._start_requests()

    def _answered(self, _: asyncio.Future[Answer]) -> None:
        """Send all answers up to the first that is not ready, then start further requests."""
        ready: Answer = []
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, asyncio.Future):
                if not first.done():
                    break
                if first.cancelled():
                    return
                if (why := first.exception()) is not None:
                    self._failed(why)
                    return
                ready += first.result()
            else:
                ready += first
            self._waiting.popleft()
        if ready and not self._transport.is_closing():
            self._transport.writelines(ready)
        if self._memory is not None:
            self._memory.written()
        if not self._waiting:
            self._waits_alone = self._waits_for_records = False
            if self._finishing:
                self._transport.close()
        self._start_requests()

    def _failed(self, why: BaseException) -> None:
        if isinstance(why, ProtocolViolation):
            self._violation = why
        self._transport.abort()  # other errors were logged by the task

    def _set_reading(self, *, on: bool) -> None:
        on = on and self._has_room
        if on and self._memory is not None and (wanted_bytes := self._reader.wanted_bytes):
            on = self._has_room = self._memory.claim(wanted_bytes, self._granted)
        if on != self._reading and not self._transport.is_closing():
            self._reading = on
            if on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _granted(self) -> None:
        """There is memory for the rest of a request."""
        self._has_room = True
        self._start_requests()


def is_fetch(request: AnyRequest) -> bool:
    """Whether the request may wait for records of other clients."""
    return isinstance(request, Request) and request.header.api_key is ApiKey.FETCH


def is_produce(request: AnyRequest) -> bool:
    """Whether further requests of this kind may start while it waits."""
    return isinstance(request, Request) and request.header.api_key is ApiKey.PRODUCE
