"""A connection to another broker: requests out, answers in, many on their way at once.

A broker answers a connection's requests in their order. So an answer out of order, or one
that does not come, leaves nothing to go on with: the connection is closed, whatever waits
fails with a `PeerError`, and whoever wants more dials anew.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from chiplog_broker.peers.errors import PeerError, PeerLost, PeerTimedOut
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import SOCKET_REQUEST_MAX_BYTES, FrameReader
from chiplog_wire.protocol.reader import MALFORMED, Reader
from chiplog_wire.protocol.writer import NO_TAGS, string

# As much of an answer is copied out of the read buffer, so that it does not keep all of it.
COPIED_BYTES: Final = 16 * 1024
_HEADER: Final = struct.Struct(">ihhi")
_LAST_CORRELATION_ID: Final = 2**31 - 1


class Waiting(NamedTuple):
    """A request that has been sent."""

    correlation_id: int
    api: Api
    version: int
    answer: "asyncio.Future[memoryview]"


class PeerConnection(asyncio.BufferedProtocol):
    """Both halves of the conversation, once a transport is connected to it.

    The answers' bodies belong to whoever asked.
    """

    def __init__(self, client_id: str, max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES) -> None:
        self._client_id = string(client_id)
        self._reader = FrameReader(max_frame_bytes)
        self._waiting: deque[Waiting] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._lost: PeerError | None = None
        self.versions: Mapping[int, tuple[int, int]] = {}
        """API key -> (lowest, highest version) that the peer speaks, once it has been asked."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._lost is None

    @property
    def in_flight(self) -> int:
        """Requests without an answer yet."""
        return len(self._waiting)

    def common_version(self, key: ApiKey) -> int:
        """The highest version that both ends speak. Raises `PeerError`."""
        low, high = self.versions.get(key, (0, -1))
        version = min(high, APIS[key].max_version)
        if version < max(low, APIS[key].min_served):
            raise PeerError(f"no common version of {APIS[key].name}")
        return version

    def send(
        self, key: ApiKey, version: int, body: Sequence[bytes]
    ) -> "asyncio.Future[memoryview]":
        """Send a request, given as pieces of its body; the result is the answer's body.

        Whoever cancels the result only gives up the answer. Raises `PeerLost`.
        """
        if self._transport is None or self._lost is not None:
            raise self._lost or PeerLost("not connected")
        api = APIS[key]
        self._correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        tags = NO_TAGS if api.is_flexible(version) else b""
        size = _HEADER.size - 4 + len(self._client_id) + len(tags) + sum(map(len, body))
        header = _HEADER.pack(size, key, version, self._correlation_id)
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(self._correlation_id, api, version, answer))
        self._transport.writelines([header + self._client_id + tags, *body])
        return answer

    async def exchange(
        self, key: ApiKey, version: int, body: Sequence[bytes], timeout_s: float
    ) -> memoryview:
        """Send and wait. Raises `PeerError`; after a timeout the connection is closed."""
        answer = self.send(key, version, body)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            late = PeerTimedOut(f"no answer to {APIS[key].name} within {timeout_s:g} s")
            self.fail(late)
            raise late from None

    async def ask(self, key: ApiKey, version: int, message: object, timeout_s: float) -> Any:
        """Send and receive kio's messages of that version. Raises `PeerError`."""
        # kio's serializers are imported with the first message that needs them.
        from chiplog_wire.protocol.codec import outgoing  # noqa: PLC0415

        body = await self.exchange(key, version, [outgoing.encode_request(message)], timeout_s)
        try:
            return outgoing.decode_response(key, version, body)
        except ProtocolViolation as violation:
            self.fail(PeerLost(str(violation)))
            raise PeerLost(str(violation)) from violation

    def allow(self, max_frame_bytes: int) -> None:
        """The peer is known from now on: its answers may be this large."""
        self._reader.max_frame_bytes = max_frame_bytes

    def fail(self, why: PeerError) -> None:
        """Close at once; whatever waits fails with `why`."""
        if self._lost is None:
            self._lost = why
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(self._lost)

    def close(self) -> None:
        """Close on our own account."""
        self.fail(PeerLost("closed by us"))

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._lost is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.buffer_updated(nbytes)
        if self._lost is not None:
            return
        try:
            while (frame := self._reader.next_frame()) is not None:
                self._answered(frame)
        except ProtocolViolation as violation:
            self.fail(PeerLost(str(violation)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(PeerLost(str(exc or "closed by the peer")))
        self._transport = None

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolViolation("an answer that nobody asked for")
        waiting = self._waiting[0]
        body = body_of(frame, waiting)
        self._waiting.popleft()
        if waiting.answer.done():
            return  # nobody wants it any more
        if len(body) <= COPIED_BYTES:
            body = memoryview(bytes(body))
        else:
            self._reader.detach()
        waiting.answer.set_result(body)


def body_of(frame: memoryview, waiting: Waiting) -> memoryview:
    """The answer without its header. Raises `ProtocolViolation` for one to something else."""
    flexible = waiting.api.response_header_version(waiting.version) == 1
    reader = Reader(frame, compact=flexible)
    try:
        correlation_id = reader.int32()
        if flexible:
            reader.skip_tagged_fields()
    except MALFORMED as error:
        raise ProtocolViolation("malformed response header") from error
    if correlation_id != waiting.correlation_id:
        raise ProtocolViolation("an answer to another request")
    return frame[reader.position :]
