"""Cutting a byte stream into frames: four bytes of length, then that many bytes.

One buffer a connection, reused from read to read. It starts small and grows only as bytes
arrive, so a peer that announces 2 GiB and stays silent costs nothing, and 10,000 idle
connections cost a few KiB each. A frame that lies whole in the buffer is handed out where
it lies; a larger one makes the buffer grow, never beyond four times what has arrived.

Who owns the bytes: a frame from `next_frame` is a writable view into the buffer. It is the
caller's until the next `get_buffer`, which may overwrite it. A caller that needs its
frames for longer either stops reading (`transport.pause_reading`) or calls `detach`, after
which every frame handed out so far stays as it is for good.
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

UNAUTHENTICATED_MAX_BYTES: Final = 64 * 1024
"""The largest frame before authentication (CVE-2022-34917 shows why it is small)."""

_PREFIX: Final = struct.Struct(">i")
_PREFIX_AND_KEY: Final = struct.Struct(">ih")
_INITIAL_BYTES: Final = 4 * 1024
_GROWTH: Final = 4
# Reads that fill the buffer make it grow up to here, to save system calls.
_BULK_BYTES: Final = 256 * 1024
# If one large frame made the buffer larger than this, it is released after the frame.
_RETAINED_BYTES: Final = 2 * 1024 * 1024


class Room(Protocol):
    """The memory for buffers."""

    def may_grow(self, change_bytes: int) -> bool:
        """Whether a buffer may be larger than it need be, to save system calls."""

    def holds(self, capacity_bytes: int) -> None:
        """The buffer has this size now."""


class FrameReader:
    """Collects bytes and hands out frames, for `asyncio.BufferedProtocol` or `receive`.

    After a `ProtocolViolation` the stream has no frame boundaries any more: close it.
    """

    __slots__ = (
        "_are_requests",
        "_buffer",
        "_detached",
        "_end",
        "_filled",
        "_start",
        "_view",
        "max_frame_bytes",
        "room",
    )

    def __init__(
        self, max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES, *, are_requests: bool = False
    ) -> None:
        """`are_requests` says that frames begin with an API key, and that only a Produce may be
        larger than `OTHER_REQUEST_MAX_BYTES`."""
        self._are_requests = are_requests
        # May be raised at any time, which is what a successful authentication does.
        self.max_frame_bytes = max_frame_bytes
        self.room: Room | None = None
        self._buffer = bytearray()
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._filled = False
        self._detached = False

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
        """The size that the buffer must have before anything more can be read; 0 if it has it.

        Then it is full of a part of one frame.
        """
        capacity = len(self._buffer)
        if self._end - self._start < capacity:
            return 0
        return self._wanted_capacity(capacity, capacity)

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """Where the next bytes go. All frames returned so far become invalid."""
        if self._start == self._end:
            self._start = self._end = 0
            # Between requests, which is where it is called most, there is nothing to decide.
            if not (self._filled or self._detached) and 0 < len(self._buffer) <= _RETAINED_BYTES:
                return self._view
        self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, size_bytes: int) -> None:
        """`size_bytes` were written to what `get_buffer` returned."""
        self._end += size_bytes
        self._filled = self._end == len(self._buffer)

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes have come."""
        start = self._start + _PREFIX.size
        if start > self._end:
            return None
        end = start + self._frame_size()
        if end > self._end:
            return None
        self._start = end
        return self._view[start:end]

    def receive(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Copy `data` in and return every frame that it completes; they stay valid."""
        frames = []
        rest = memoryview(data)
        while rest:
            room = self.get_buffer()
            taken = min(len(room), len(rest))
            room[:taken] = rest[:taken]
            self.buffer_updated(taken)
            rest = rest[taken:]
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
        """Release everything: nothing is read any more."""
        self._start = self._end = 0
        self._replace(0)

    def _frame_size(self) -> int:
        """The announced size of the frame at the start of the buffer."""
        (size,) = _PREFIX.unpack_from(self._buffer, self._start)
        if 0 < size <= self.max_frame_bytes:
            if size > OTHER_REQUEST_MAX_BYTES and self._are_requests:
                self._check_large(size)
            return int(size)
        if size <= 0:
            raise ProtocolViolation("frame length is not positive")
        raise ProtocolViolation(f"frame length is above {self.max_frame_bytes}")

    def _check_large(self, size: int) -> None:
        """Refuse a large request of another kind as soon as its kind is known."""
        if self.pending_bytes < _PREFIX_AND_KEY.size:
            return
        _, key = _PREFIX_AND_KEY.unpack_from(self._buffer, self._start)
        if key != ApiKey.PRODUCE:
            raise ProtocolViolation(
                f"a request of {size} bytes with API key {key}: "
                f"only a Produce may be above {OTHER_REQUEST_MAX_BYTES}"
            )

    def _make_room(self) -> None:
        """Make sure that at least one byte can be added after the pending ones."""
        capacity = len(self._buffer)
        pending = self.pending_bytes
        wanted = self._wanted_capacity(capacity, pending)
        if wanted != capacity or self._detached:
            self._replace(wanted)
        elif self._start and self._lacks_room(capacity, pending):
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending
        if self._end == len(self._buffer):
            raise RuntimeError("get_buffer with a full buffer: take frames or pause reading")

    def _wanted_capacity(self, capacity: int, pending: int) -> int:
        """Larger if more bytes have come than fit, smaller after a large frame."""
        if not pending and capacity > _RETAINED_BYTES:
            return _BULK_BYTES
        if pending == capacity:
            frame_bytes = self._frame_bytes(pending)
            return max(capacity, min(frame_bytes, capacity * _GROWTH), _INITIAL_BYTES)
        if self._filled and capacity < _BULK_BYTES:
            wanted = capacity * _GROWTH
            if self.room is None or self.room.may_grow(wanted - capacity):
                return wanted
        return capacity

    def _lacks_room(self, capacity: int, pending: int) -> bool:
        """Whether the next bytes do not fit after the pending ones."""
        return self._end == capacity or self._start + self._frame_bytes(pending) > capacity

    def _frame_bytes(self, pending: int) -> int:
        """The size of the frame at the start, length included, as far as it is known."""
        if pending < _PREFIX.size:
            return _PREFIX.size
        (size,) = _PREFIX.unpack_from(self._buffer, self._start)
        # A bad length is for `next_frame` to report: a transport cannot handle it here.
        return _PREFIX.size + (int(size) if 0 < size <= self.max_frame_bytes else 0)

    def _replace(self, capacity: int) -> None:
        """Continue in a new buffer. The old one exists as long as frames in it are used."""
        pending = self.pending_bytes
        old = self._view[self._start : self._end]
        if self.room is not None and capacity != len(self._buffer):
            self.room.holds(capacity)
        self._buffer = bytearray(capacity)
        self._view = memoryview(self._buffer)
        self._view[:pending] = old
        self._start, self._end = 0, pending
        self._filled = self._detached = False
