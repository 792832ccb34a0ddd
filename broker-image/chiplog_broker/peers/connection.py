"""A connection to another broker, with pipelined requests.

A broker answers the requests of a connection in order. An answer out of order, or a missing one,
makes the connection unusable: it is closed, waiting requests fail with a `PeerError`, and the
caller has to dial again.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chiplog_broker.peers.errors import PeerError, PeerLost, PeerTimedOut
from chiplog_wire.client.connection import ClientConnection, decoded, encoded
from chiplog_wire.client.errors import NoCommonVersion
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import SOCKET_REQUEST_MAX_BYTES


class PeerConnection(asyncio.BufferedProtocol):
    """The protocol and the client of one connection.

    The messages are handled by `chiplog_wire`; this class adds the transport and the waiting
    requests. The bodies of answers belong to the caller.
    """

    def __init__(self, client_id: str, max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES) -> None:
        self.wire = ClientConnection(client_id, max_frame_bytes)
        self._waiting: deque[asyncio.Future[memoryview]] = deque()
        self._transport: asyncio.Transport | None = None
        self._lost: PeerError | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._lost is None

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet."""
        return len(self._waiting)

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """API key -> (lowest, highest version) of the peer, once known."""
        return self.wire.versions

    def common_version(self, key: ApiKey) -> int:
        """The highest version of this API that both brokers support. Raises `PeerError`."""
        try:
            return self.wire.common_version(key)
        except NoCommonVersion as none:
            raise PeerError(str(none)) from none

    def send(
        self, key: ApiKey, version: int, body: Sequence[bytes]
    ) -> "asyncio.Future[memoryview]":
        """Send a request, given as pieces of its body; the future gets the answer's body.

        Cancelling the future does not cancel the request: its answer is ignored. Raises `PeerLost`.
        """
        if self._transport is None or self._lost is not None:
            raise self._lost or PeerLost("not connected")
        pieces = self.wire.send(key, version, body)
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.writelines(pieces)
        return answer

    async def exchange(
        self, key: ApiKey, version: int, body: Sequence[bytes], timeout_s: float
    ) -> memoryview:
        """Send a request and return the answer's body. Raises `PeerError`; after a timeout the
        connection is closed."""
        answer = self.send(key, version, body)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            late = PeerTimedOut(f"no answer to {APIS[key].name} within {timeout_s:g} s")
            self.fail(late)
            raise late from None

    async def send_request(
        self, key: ApiKey, version: int, message: object, timeout_s: float
    ) -> Any:
        """Send a request and return the answer, both as kio's message classes of this version.
        Raises `PeerError`."""
        body = await self.exchange(key, version, [encoded(message)], timeout_s)
        try:
            return decoded(key, version, body)
        except ProtocolViolation as violation:
            self.fail(PeerLost(str(violation)))
            raise PeerLost(str(violation)) from violation

    def allow(self, max_frame_bytes: int) -> None:
        """Accept answers of up to this size from now on, because the peer is authenticated."""
        self.wire.allow(max_frame_bytes)

    def fail(self, why: PeerError) -> None:
        """Close at once; waiting requests fail with `why`."""
        if self._lost is None:
            self._lost = why
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(self._lost)

    def close(self) -> None:
        """Close the connection; waiting requests fail with `PeerLost`."""
        self.fail(PeerLost("closed by us"))

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._lost is not None:
            # It was closed while it was being opened.
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.wire.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived: give complete answers to the requests, which wait in this order."""
        self.wire.buffer_updated(nbytes)
        if self._lost is not None:
            return
        try:
            while (answer := self.wire.next_answer()) is not None:
                waiting = self._waiting.popleft()
                # A caller that has cancelled does not want the answer any more.
                if not waiting.done():
                    waiting.set_result(answer.body)
        except ProtocolViolation as violation:
            self.fail(PeerLost(str(violation)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(PeerLost(str(exc or "closed by the peer")))
        self._transport = None
