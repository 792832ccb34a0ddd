"""The client's end of a connection to a broker: encodes requests and decodes answers, without I/O.

    write(client.send(ApiKey.METADATA, 12, [body]))
    client.receive_data(read())
    while (answer := client.next_answer()) is not None: ...

A broker answers the requests of a connection in order, so several may be in flight. After an answer
out of order the connection is unusable: `next_answer` raises `ProtocolViolation`, also in later
calls, and the connection must be closed.
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from chiplog_wire.buffer import Buffer
from chiplog_wire.client.errors import NoCommonVersion
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.framing import SOCKET_REQUEST_MAX_BYTES, FrameReader
from chiplog_wire.protocol.reader import MALFORMED, Reader
from chiplog_wire.protocol.writer import NO_TAGS, nullable_string

# An answer of at most this size is copied, so that it does not keep the whole read buffer in
# memory.
COPIED_BYTES: Final = 16 * 1024
_HEADER: Final = struct.Struct(">ihhi")
_LAST_CORRELATION_ID: Final = 2**31 - 1


class Call(NamedTuple):
    """A sent request: the fields that are needed to decode its answer."""

    correlation_id: int
    api: Api
    version: int


class Answer(NamedTuple):
    """A broker's answer. The bytes of `body` belong to the caller."""

    call: Call
    body: memoryview

    def message(self) -> Any:
        """The answer as kio's dataclass of the request's version. Raises `ProtocolViolation`."""
        return decoded(self.call.api.key, self.call.version, self.body)


class ClientConnection:
    """The client's half of one connection."""

    def __init__(
        self, client_id: str | None, max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES
    ) -> None:
        self._client_id = nullable_string(client_id)
        self._reader = FrameReader(max_frame_bytes)
        self._calls: deque[Call] = deque()
        self._answers: deque[Answer] = deque()
        self._violation: ProtocolViolation | None = None
        self._correlation_id = 0
        self.versions: Mapping[int, tuple[int, int]] = {}
        """API key -> (lowest, highest version) that the broker speaks, once it has been asked."""

    # -- requests

    @property
    def in_flight(self) -> int:
        """The number of requests that have no answer yet."""
        return len(self._calls)

    def common_version(self, key: ApiKey, ours: tuple[int, int] | None = None) -> int:
        """The highest version of an API that client and broker support. Raises `NoCommonVersion`.

        `ours` are the lowest and highest version of the caller; by default those in `APIS`.
        """
        our_low, our_high = ours or (APIS[key].min_served, APIS[key].max_version)
        spoken = self.versions.get(key)
        low, high = spoken or (0, -1)  # an empty range if the broker does not have the API
        version = min(high, our_high)
        if version < max(low, our_low):
            raise NoCommonVersion(key, spoken)
        return version

    def send(self, key: ApiKey, version: int, body: Sequence[Buffer]) -> list[Buffer]:
        """Frame a request with this encoded body; returns the pieces to write, in order."""
        api = APIS[key]
        # After the largest id comes 1 again.
        self._correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        tags = NO_TAGS if api.is_flexible(version) else b""
        # The size field, which has 4 bytes, does not count itself.
        size = _HEADER.size - 4 + len(self._client_id) + len(tags) + sum(map(len, body))
        header = _HEADER.pack(size, key, version, self._correlation_id)
        self._calls.append(Call(self._correlation_id, api, version))
        return [header + self._client_id + tags, *body]

    # -- answers

    def allow(self, max_frame_bytes: int) -> None:
        """Allow answers up to this size from now on, and believe the sizes that they announce,
        because the broker is authenticated."""
        self._reader.max_frame_bytes = max_frame_bytes
        self._reader.trusts_sizes = True

    def receive_data(self, data: Buffer) -> None:
        """Add received bytes. They are copied."""
        rest = memoryview(data)
        while rest and self._violation is None:
            space = self._reader.get_buffer()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """The buffer for the next bytes, as in `asyncio.BufferedProtocol`."""
        return self._reader.get_buffer(size_hint)

    def buffer_updated(self, size_bytes: int) -> None:
        """Add the bytes that were read into the buffer of `get_buffer`: this many."""
        self._reader.buffer_updated(size_bytes)
        if self._violation is not None:
            return
        try:
            while (frame := self._reader.next_frame()) is not None:
                self._answers.append(self._answer(frame))
        except ProtocolViolation as violation:
            self._violation = violation

    def next_answer(self) -> Answer | None:
        """The next answer, in the order of the requests; None if it is not received completely yet.

        After a violation of the protocol, the answers before it are returned first; then each call
        raises `ProtocolViolation`.
        """
        if self._answers:
            return self._answers.popleft()
        if self._violation is not None:
            raise self._violation
        return None

    def _answer(self, frame: memoryview) -> Answer:
        """The answer in a frame, for the oldest request without one. Raises `ProtocolViolation`."""
        if not self._calls:
            raise ProtocolViolation("an answer without a request")
        call = self._calls[0]
        body = body_of(frame, call)
        self._calls.popleft()
        if len(body) <= COPIED_BYTES:
            return Answer(call, memoryview(bytes(body)))
        self._reader.detach()  # the answer keeps the buffer
        return Answer(call, body)


def body_of(frame: memoryview, call: Call) -> memoryview:
    """The body of an answer to this request. Raises `ProtocolViolation` if the frame answers
    another request."""
    flexible = call.api.response_header_version(call.version) == 1
    reader = Reader(frame, compact=flexible)
    try:
        correlation_id = reader.int32()
        if flexible:
            reader.skip_tagged_fields()
    except MALFORMED as error:
        raise ProtocolViolation("malformed response header") from error
    if correlation_id != call.correlation_id:
        raise ProtocolViolation("an answer to another request")
    return frame[reader.position :]


def encoded(message: object) -> bytes:
    """Encode the body of a request, given as kio's dataclass of its version.

    kio's serializers are imported with the first message that needs them: they cost more than all
    our own code at start-up.
    """
    from chiplog_wire.protocol.codec import outgoing  # noqa: PLC0415

    return outgoing.encode_request(message)


def decoded(key: ApiKey, version: int, body: memoryview) -> Any:
    """Decode the body of an answer to kio's dataclass of its version. Raises
    `ProtocolViolation`."""
    from chiplog_wire.protocol.codec import outgoing  # noqa: PLC0415

    return outgoing.decode_response(key, version, body)
