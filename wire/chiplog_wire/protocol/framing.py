"""Divides a byte stream into frames: four bytes of length, then that many bytes.

Each connection has one buffer, which is reused. It starts small and grows only when bytes arrive:
a client that announces 2 GiB and sends nothing costs no memory, and 10,000 idle connections cost a
few KiB each. The buffer never grows beyond four times what has arrived, unless `trusts_sizes` is
set.

A frame of `next_frame` is a writable view into the buffer. It is valid until the next `get_buffer`,
which may overwrite it. A caller that needs frames for longer either stops reading
(`transport.pause_reading`) or calls `detach`, which keeps all frames returned so far valid.

With `trusts_sizes`, a buffer that has grown for a large frame is used for the next one, if by then
nobody holds a view of it. A peer that sends one large frame after the other sends them all into the
same memory.
"""

import struct
from typing import Final, Protocol

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation

SOCKET_REQUEST_MAX_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default for `socket.request.max.bytes`: the largest frame of a known peer."""

OTHER_REQUEST_MAX_BYTES: Final = 8 * 1024 * 1024
"""The largest request that is not a Produce. Only record batches make a request large: one that
names 40,000 partitions, each with 150 bytes of metadata, takes 7 MB."""

UNAUTHENTICATED_MAX_BYTES: Final = 24 * 1024
"""The largest frame before authentication (CVE-2022-34917 shows why it is small).

It is in memory twice, as a frame and as the token in it, and together they must stay below 64 KiB.
The tokens of mechanisms have at most a few KiB."""

_PREFIX: Final = struct.Struct(">i")
_PREFIX_AND_KEY: Final = struct.Struct(">ih")
_INITIAL_BYTES: Final = 4 * 1024
_GROWTH: Final = 4
# Reads that fill the buffer make it grow up to here, or to the largest frame if that is smaller, to
# save system calls.
_BULK_BYTES: Final = 256 * 1024
# If one large frame made the buffer larger than this, it is released after the frame.
_RETAINED_BYTES: Final = 2 * 1024 * 1024
# Buffers for large frames of a trusted peer are a multiple of this, and larger than the frame.
_ROUNDED_TO_BYTES: Final = 1024 * 1024


class BufferMemory(Protocol):
    """Limits and counts the memory of one buffer."""

    def may_grow(self, change_bytes: int) -> bool:
        """Whether the buffer may grow by this many bytes that it does not need, to save system
        calls."""

    def holds(self, capacity_bytes: int) -> None:
        """Count the buffer's new size."""


TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a client that begins with TLS, for the message to its user."""


class FrameReader:
    """Collects bytes and returns frames, for `asyncio.BufferedProtocol` or `receive`.

    After a `ProtocolViolation` frames cannot be found any more: the connection must be closed.
    """

    __slots__ = (
        "_are_requests",
        "_buffer",
        "_detached",
        "_end",
        "_filled",
        "_frame_was_large",
        "_start",
        "_view",
        "max_frame_bytes",
        "memory",
        "trusts_sizes",
    )

    def __init__(
        self, max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES, *, are_requests: bool = False
    ) -> None:
        """`are_requests` says that frames begin with an API key, and that only a Produce may be
        larger than `OTHER_REQUEST_MAX_BYTES`."""
        self._are_requests = are_requests
        # May be raised at any time, for example after an authentication.
        self.max_frame_bytes = max_frame_bytes
        self.memory: BufferMemory | None = None
        # Whether a large frame gets its memory at once, for a peer that sends what it announces: to
        # grow in steps copies most of the frame again.
        self.trusts_sizes = False
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        # The bytes of incomplete or unread frames are between `_start` and `_end`.
        self._start = 0
        self._end = 0
        # Whether the last read filled the buffer: then a larger one saves system calls.
        self._filled = False
        # Whether returned frames must stay valid, so that the buffer must not be reused.
        self._detached = False
        # Whether the last frame was larger than a buffer that is kept: the next one may be, too.
        self._frame_was_large = False

    @property
    def pending_bytes(self) -> int:
        """Bytes received and not yet returned as frames; 0 between requests."""
        return self._end - self._start

    @property
    def capacity_bytes(self) -> int:
        """The memory held by the buffer."""
        return len(self._buffer)

    @property
    def wanted_bytes(self) -> int:
        """The size to which the buffer must grow before more can be read; 0 if it has space.

        The buffer must grow when it is full of an incomplete frame.
        """
        capacity = len(self._buffer)
        if self._end - self._start < capacity:
            return 0
        return self._wanted_capacity(capacity, capacity)

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """The free part of the buffer, for the next bytes. Frames returned so far become invalid,
        unless `detach` was called."""
        if self._start == self._end:
            self._start = self._end = 0
            # The usual case, between two requests: the whole buffer is free and has the right size.
            if not (self._filled or self._detached) and 0 < len(self._buffer) <= _RETAINED_BYTES:
                return self._view
            if self._frame_was_large and self.trusts_sizes and self._is_free():
                self._filled = self._detached = False
                return self._view
        self._make_space()
        return self._view[self._end :]

    def buffer_updated(self, size_bytes: int) -> None:
        """Add the bytes that were written to the buffer of `get_buffer`: this many."""
        self._end += size_bytes
        self._filled = self._end == len(self._buffer)

    def next_frame(self) -> memoryview | None:
        """The next frame without its length; None if it is not received completely yet."""
        start = self._start + _PREFIX.size
        if start > self._end:
            return None
        end = start + self._frame_size()
        if end > self._end:
            return None
        self._start = end
        self._frame_was_large = end - start > _RETAINED_BYTES
        return self._view[start:end]

    def receive(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Add a copy of `data`, and return every frame that it completes; these stay valid."""
        frames = []
        rest = memoryview(data)
        while rest:
            space = self.get_buffer()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]
            while (frame := self.next_frame()) is not None:
                frames.append(frame)
                self._detached = True
        return frames

    def detach(self) -> None:
        """Keep all frames returned so far valid: the buffer is not reused."""
        self._detached = True

    def trim(self) -> None:
        """Release the buffer's memory if it is empty; for idle connections."""
        if not self.pending_bytes:
            self._replace(0)

    def shrink(self) -> None:
        """Release the unused part of the buffer."""
        capacity = max(self.pending_bytes, _INITIAL_BYTES)
        if capacity < len(self._buffer):
            self._replace(capacity)

    def drop(self) -> None:
        """Release all memory, because nothing is read any more."""
        self._start = self._end = 0
        self._replace(0)

    def _is_free(self) -> bool:
        """Whether nobody else holds a view of the buffer, so that a detached one can be reused."""
        try:
            self._view.release()
            # A bytearray cannot change its size while views of it exist.
            self._buffer.append(self._buffer.pop())
        except BufferError:
            return False
        finally:
            self._view = memoryview(self._buffer)
        return True

    def _frame_size(self) -> int:
        """The announced size of the first frame. Raises `ProtocolViolation` if it is not
        allowed."""
        (size,) = _PREFIX.unpack_from(self._buffer, self._start)
        if 0 < size <= self.max_frame_bytes:
            if size > OTHER_REQUEST_MAX_BYTES and self._are_requests:
                self._check_large(size)
            return int(size)
        if size <= 0:
            raise ProtocolViolation(f"frame length {size} is not positive")
        if size >> 16 == TLS_HANDSHAKE:
            raise ProtocolViolation("the client uses TLS, but this listener does not")
        raise ProtocolViolation(f"frame length {size} is above {self.max_frame_bytes}")

    def _check_large(self, size: int) -> None:
        """Raise `ProtocolViolation` for a large request that is no Produce, as soon as its first
        bytes show its API key."""
        if self.pending_bytes < _PREFIX_AND_KEY.size:
            return
        _, key = _PREFIX_AND_KEY.unpack_from(self._buffer, self._start)
        if key != ApiKey.PRODUCE:
            raise ProtocolViolation(
                f"a request of {size} bytes with API key {key}: "
                f"only a Produce may be above {OTHER_REQUEST_MAX_BYTES}"
            )

    def _make_space(self) -> None:
        """Make sure that the buffer has space after the pending bytes: by a new buffer, or by
        moving these bytes to the beginning."""
        capacity = len(self._buffer)
        pending = self.pending_bytes
        wanted = self._wanted_capacity(capacity, pending)
        if wanted != capacity or self._detached:
            self._replace(wanted)
        elif self._start and self._lacks_space(capacity, pending):
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending
        if self._end == len(self._buffer):
            raise RuntimeError("get_buffer with a full buffer: take frames or pause reading")

    def _wanted_capacity(self, capacity: int, pending: int) -> int:
        """The size that the buffer should have, by its `capacity` and the `pending` bytes in it.

        It grows for a frame that does not fit and after a read that filled it. It shrinks after a
        large frame.
        """
        if not pending and capacity > _RETAINED_BYTES:
            return _BULK_BYTES
        if pending == capacity:
            frame_bytes = self._frame_bytes(pending)
            if not self.trusts_sizes:
                frame_bytes = min(frame_bytes, capacity * _GROWTH)
            elif frame_bytes > _RETAINED_BYTES:
                # The next frame may be a little larger, and should fit, too. If a read filled the
                # buffer, another one would follow at once, before the frame is used.
                frame_bytes += _ROUNDED_TO_BYTES - frame_bytes % _ROUNDED_TO_BYTES
            return max(capacity, frame_bytes, _INITIAL_BYTES)
        bulk_bytes = min(_BULK_BYTES, _PREFIX.size + self.max_frame_bytes)
        if self._filled and capacity < bulk_bytes:
            wanted = min(capacity * _GROWTH, bulk_bytes)
            if self.memory is None or self.memory.may_grow(wanted - capacity):
                return wanted
        return capacity

    def _lacks_space(self, capacity: int, pending: int) -> bool:
        """Whether the first frame does not fit into the buffer from where it starts now."""
        return self._end == capacity or self._start + self._frame_bytes(pending) > capacity

    def _frame_bytes(self, pending: int) -> int:
        """The size of the first frame with its length field; only of this field if the frame's
        length is not received yet or invalid."""
        if pending < _PREFIX.size:
            return _PREFIX.size
        (size,) = _PREFIX.unpack_from(self._buffer, self._start)
        # `next_frame` raises an error for an invalid length. Here it would reach the transport.
        return _PREFIX.size + (int(size) if 0 < size <= self.max_frame_bytes else 0)

    def _replace(self, capacity: int) -> None:
        """Copy the pending bytes to a new buffer of this size. The old one exists as long as frames
        in it are used."""
        pending = self.pending_bytes
        old = self._view[self._start : self._end]
        if self.memory is not None and capacity != len(self._buffer):
            self.memory.holds(capacity)
        self._buffer = bytearray(capacity)
        self._view = memoryview(self._buffer)
        self._view[:pending] = old
        self._start, self._end = 0, pending
        self._filled = self._detached = self._frame_was_large = False
