"""What a frame costs a broker: a client without a socket, and what is measured of its frames.

Frames go to the real `Connection` of a listener, with everything behind it. CPU time is that of the
event loop's thread, so other programs on the machine do not count. Memory is what Python has
allocated at most while the frame was handled, in addition to what there was before.
"""

import asyncio
import gc
import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chiplog_broker.server.connection import Connection
from chiplog_broker.server.listening import Acceptor

FRAMES = int(os.environ.get("CHIPLOG_FUZZ_FRAMES", "6000"))
"""All mutated frames that are sent to a broker: half of them logins, a quarter ACLs and users, a
quarter TLS."""
CPU_LIMIT_S = 0.005
MEMORY_LIMIT_BYTES = 64 * 1024
CPU_GUARD, MEMORY_GUARD = 5, 2
"""A test fails only if a limit is exceeded this many times: on a busy machine caches are cold, and
what else happens in the broker at that moment is counted, too."""
REPEATS = 3
"""So often a frame is sent again that seems to cost more than a limit. The least that it costs
counts: garbage collections, and modules that are loaded when they are first needed, may hit any
frame."""
TURNS = 3


class MemoryTransport(asyncio.Transport):
    """The broker's end of a connection without a socket."""

    def __init__(self, connection: Connection) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self._connection = connection
        self._is_closing = False
        self.is_read = True
        self.written = bytearray()

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Stranger:
    """A client of a listener that sends whatever it likes."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.connection = acceptor.new_connection()
        self.transport = MemoryTransport(self.connection)
        self.connection.connection_made(self.transport)

    @property
    def principal(self) -> str:
        return self.connection.peer.principal

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()

    def send(self, framed: bytes) -> None:
        """Send a frame with its length. What the broker does not read is lost."""
        data = memoryview(framed)
        while data and self.transport.is_read and not self.is_closed:
            space = self.connection.get_buffer(-1)
            count = min(len(space), len(data))
            space[:count] = data[:count]
            del space
            self.connection.buffer_updated(count)
            data = data[count:]

    async def ask(self, framed: bytes) -> bytes:
        """Send a frame and return what the broker has written a few turns later."""
        self.transport.written.clear()
        self.send(framed)
        await turns()
        return bytes(self.transport.written)

    def leave(self) -> None:
        self.transport.abort()


async def turns(count: int = TURNS) -> None:
    """Let the event loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@dataclass(slots=True)
class Worst:
    """The most that one frame has cost."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    total_cpu_s: float = 0.0
    frames: int = 0
    slowest: bytes = b""
    largest: bytes = b""

    def add(self, frame: bytes, cpu_s: float, memory_bytes: int) -> None:
        self.frames += 1
        self.total_cpu_s += cpu_s
        if cpu_s > self.cpu_s:
            self.cpu_s, self.slowest = cpu_s, frame
        if memory_bytes > self.memory_bytes:
            self.memory_bytes, self.largest = memory_bytes, frame

    def __str__(self) -> str:
        memory = (
            f", {self.memory_bytes / 1024:.0f} KiB (limit {MEMORY_LIMIT_BYTES // 1024} KiB)"
            if self.memory_bytes
            else ""
        )
        return (
            f"{self.frames:,}, {self.total_cpu_s / max(self.frames, 1) * 1e6:.0f} µs each; the "
            f"worst {self.cpu_s * 1e3:.2f} ms (limit {CPU_LIMIT_S * 1e3:g} ms){memory}"
        )

    def check(self) -> None:
        """Fail if a limit is exceeded by far."""
        assert self.cpu_s < CPU_GUARD * CPU_LIMIT_S, self.slowest[:200]
        assert self.memory_bytes < MEMORY_GUARD * MEMORY_LIMIT_BYTES, self.largest[:200]


@contextmanager
def measuring() -> Iterator[None]:
    """Count memory, and leave everything that exists already out of garbage collections: in a
    broker these objects do not exist."""
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.unfreeze()


async def cost_of(stranger: Stranger, frame: bytes) -> tuple[float, int]:
    """Send a frame; returns the CPU time in seconds and the memory in bytes that it costs."""
    whole = framed(frame)
    tracemalloc.reset_peak()
    before_bytes, _ = tracemalloc.get_traced_memory()
    began_ns = time.thread_time_ns()
    stranger.send(whole)
    await turns()
    took_ns = time.thread_time_ns() - began_ns
    _, peak_bytes = tracemalloc.get_traced_memory()
    return took_ns / 1e9, peak_bytes - before_bytes


async def longest_turn_of(stranger: Stranger, frame: bytes, limit_s: float = 30) -> float:
    """Send a frame and wait for its answer, or the end of the connection. Returns the longest time
    in seconds that the event loop computed without a pause."""
    stranger.transport.written.clear()
    deadline_s = time.monotonic() + limit_s
    longest_ns, before_ns = 0, time.thread_time_ns()
    stranger.send(framed(frame))
    while True:
        now_ns = time.thread_time_ns()
        longest_ns, before_ns = max(longest_ns, now_ns - before_ns), now_ns
        if stranger.is_closed or stranger.transport.written:
            return longest_ns / 1e9
        assert time.monotonic() < deadline_s, f"no answer to {frame[:200]!r}"
        await asyncio.sleep(0)
