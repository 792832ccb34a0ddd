"""Connections between simulated processes: bytes in order, late, stalled, or cut off.

A connection is two pipes. Bytes that a network partition holds back arrive when it ends, as by
TCP's retransmissions, unless an end closes the connection before. The connections of a killed
process are reset at once; peers of a machine without power notice its end much later.
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol, cast

from e2e.sim.loop import PROCESS, Process, SimLoop

HIGH_WATER_BYTES: Final = 256 * 1024
LOW_WATER_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 10.0
EOF: Final = "eof"
RESET: Final = "reset"
Item = bytes | str


class Handshake(Protocol):
    """What a client brings for the handshake in front of its first request."""

    async def opened(self, here: "Transport") -> None:
        """The client's side of a handshake on a new connection. Raises `OSError` if it fails."""

    def accepted(self, there: "Transport") -> Any:
        """What the server's side accepts in place of a socket."""


class Server:
    """A listening server, as `loop.create_server` returns it, and its only socket."""

    def __init__(self, network: "Network", factory: Any, process: Process, port: int) -> None:
        self.network, self.factory, self.process, self.port = network, factory, process, port
        self.is_serving = False
        self.sockets = (self,)
        self.begin: Callable[[Any, str, int], object] | None = None
        """Begins the handshake of an accepted socket from this host and port; None for a server
        without handshakes."""

    def fileno(self) -> int:
        """A number by which `Network.server` finds this server: there are no descriptors here."""
        return self.port

    async def start_serving(self) -> None:
        self.is_serving = True

    def close(self) -> None:
        self.is_serving = False
        self.network.forget(self)

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class _Pipe:
    """One direction of a connection."""

    def __init__(self, network: "Network", source: "Transport", target: "Transport") -> None:
        self._network, self._source, self.target = network, source, target
        self._queue: deque[tuple[float, Item]] = deque()
        self._last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.size_bytes = 0
        self.hangs = False
        """Whether nothing arrives any more, without an error at either end."""

    def send(self, item: Item, delay_s: float | None = None) -> None:
        """Queue bytes, `EOF` or `RESET` for the other end; without `delay_s` the network draws
        the delay. Items arrive in the order in which they were sent."""
        loop, slow_ways = self._network.loop, self._network.slow_ways_s
        delay_s = self._network.delay_s() if delay_s is None else delay_s
        if slow_ways:
            way = self._source.process.host, self.target.process.host
            delay_s += slow_ways.get(way, 0.0)
        if self._network.slow_ends_s:
            delay_s += self._network.slow_ends_s.get(self._source, 0.0)
        self._last_s = max(self._last_s, loop.time() + delay_s)
        self._queue.append((self._last_s, item))
        if not isinstance(item, str):
            self.size_bytes += len(item)
        if self._timer is None:  # a running timer delivers this item after the earlier ones
            self.pump()

    def pump(self) -> None:
        """Deliver the items that are due, if the source reaches the target, and set the timer."""
        if self._timer is not None:
            self._timer.cancel()  # called by the timer itself, or earlier because a fault ended
            self._timer = None
        loop = self._network.loop
        if self.hangs or not self._network.is_open(
            self._source.process.host, self.target.process.host
        ):
            return
        while self._queue and self._queue[0][0] <= loop.time():
            _, item = self._queue.popleft()
            if not isinstance(item, str):
                self.size_bytes -= len(item)
            self.target.post(self.target.feed, item)
        self._source.drained(self.size_bytes)
        if self._queue:
            empty = self._network.context
            self._timer = loop.call_at(self._queue[0][0], self.pump, context=empty)


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", process: Process, name: tuple[str, int]) -> None:
        self._info: dict[str, Any] = {"peername": name, "socket": None}
        super().__init__(self._info)
        self.network, self.process = network, process
        self.pipe: _Pipe
        self._protocol: Any = None
        self._closing = False
        self._lost = False
        self._is_reading = True
        self._may_write = True
        self._received: deque[Item] = deque()
        self.peer_lost_power = False
        """Whether the process at the other end went with its machine's power: nobody answers."""
        self._high_bytes, self._low_bytes = HIGH_WATER_BYTES, LOW_WATER_BYTES

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Schedule the callback in the process of this end."""
        self.network.loop.call_soon(callback, *args, context=self.process.context)

    # -- asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        self.pipe.send(bytes(data))
        if self.pipe.size_bytes > self._high_bytes and self._may_write:
            self._may_write = False
            self._protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def get_write_buffer_size(self) -> int:
        return self.pipe.size_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = HIGH_WATER_BYTES if high is None else high
        # A buffer of exactly `low` bytes lets the protocol write again.
        self._low_bytes = (self._high_bytes // 4 if low is None else low) + 1

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing: what is not read waits in the network."""

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.post(self._deliver)

    def close(self) -> None:
        self._end(EOF)

    def abort(self) -> None:
        self._end(RESET)

    def secure(self, **info: Any) -> None:
        """Note what a handshake has found, for `get_extra_info`."""
        self._info.update(info)

    # -- from the network

    @property
    def is_open(self) -> bool:
        """Whether this end was neither closed nor lost, and its process runs."""
        return not self._closing and self.process.is_alive

    def drained(self, size_bytes: int) -> None:
        """Called after a delivery, with the number of bytes that are still undelivered.

        Lets a paused protocol write again if they are fewer than the lower limit.
        """
        if not self._may_write and size_bytes < self._low_bytes and not self._lost:
            self._may_write = True
            self.post(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self._lost:
            self._protocol.resume_writing()

    def feed(self, item: Item) -> None:
        """Take an item that arrived from the other end."""
        self._received.append(item)
        self._deliver()

    def reset(self) -> None:
        """The connection broke at this end."""
        if not self._lost:
            self._closing = True
            self._lose(ConnectionResetError(errno.ECONNRESET, "reset"))

    def _deliver(self) -> None:
        """Hand received items to the protocol, unless it paused reading; a reset comes first."""
        while self._received and not self._lost and not self._closing:
            if self._received[0] == RESET:
                self.reset()
                return
            if not self._is_reading:
                return
            item = self._received.popleft()
            if isinstance(item, str):
                self._protocol.eof_received()
                self.close()
            else:
                self._give(item)

    def _give(self, data: bytes) -> None:
        """Hand bytes to the protocol, through its own buffer if it has one."""
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest and not self._lost and not self._closing:
            buffer = cast("memoryview", self._protocol.get_buffer(-1))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            # A protocol that pauses reading here gets the rest when it resumes.
            if not self._is_reading and rest:
                self._received.appendleft(bytes(rest))
                rest = rest[:0]
            self._protocol.buffer_updated(count)

    def _end(self, how: str) -> None:
        """Close this end; `how` is what the other end gets: `EOF` or `RESET`."""
        if not self._closing:
            self._closing = True
            if self.pipe.hangs or self.peer_lost_power:
                self.network.given_up.append((self.process.name, self.network.loop.time()))
            self.pipe.send(how)
            self.post(self._lose, None)

    def _lose(self, why: Exception | None) -> None:
        """Tell the protocol once that its connection is lost; None stands for a normal close."""
        if not self._lost:
            self._lost = True
            self.network.connections.pop(self, None)
            self._protocol.connection_lost(why)


class Network:
    """Which hosts can reach each other, and how fast."""

    def __init__(self, loop: SimLoop, chance: random.Random) -> None:
        self.loop = loop
        self._chance = chance
        self.blocked: set[tuple[str, str]] = set()
        self.without_power: set[str] = set()
        """Hosts without power."""
        self.refused: set[tuple[str, int]] = set()
        """(host, port) to which connections are refused, although a process listens there."""
        self.slowest_s = 0.002
        self.slow_ways_s: dict[tuple[str, str], float] = {}
        """(source, target) -> additional delay of all bytes on this way, until `heal`."""
        self.slow_ends_s: dict[Transport, float] = {}
        """One end of a connection -> additional delay of all bytes that it sends, until `heal`.
        Other connections on the same way are as fast as before."""
        self.connections: dict[Transport, None] = {}
        self.given_up: list[tuple[str, float]] = []
        """(process, when): the process closed a connection on which nothing arrived any more, or
        stopped waiting for one to open."""
        self._servers: dict[tuple[str, int], Server] = {}
        self._port = 40_000
        self.context = Process("network", "").context

    def delay_s(self) -> float:
        return self._chance.uniform(0.0002, self.slowest_s)

    def is_open(self, source: str, target: str) -> bool:
        """Whether bytes from one host reach another: both have power, and this way is not cut."""
        return (
            (source, target) not in self.blocked
            and source not in self.without_power
            and target not in self.without_power
        )

    def ends_at(self, host: str, others: Collection[str]) -> list[Transport]:
        """The ends at a host of its connections with other hosts."""
        return [
            one
            for one in self.connections
            if one.process.host == host and one.pipe.target.process.host in others
        ]

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Block the way from `source` to `target`; the opposite way stays open."""
        self.blocked.add((source, target))

    def heal(self) -> None:
        """Open and speed up every way again; machines without power stay unreachable."""
        self.blocked.clear()
        self.refused.clear()
        self.slow_ways_s.clear()
        self.slow_ends_s.clear()
        for one in list(self.connections):
            one.pipe.pump()

    def break_some(self, share: float) -> int:
        """Reset about this share of the connections at both ends; returns how many."""
        broken = 0
        for one in list(self.connections):
            if self._chance.random() < share:
                one.post(one.reset)
                one.pipe.target.post(one.pipe.target.reset)
                broken += 1
        return broken

    def hang_some(self, share: float) -> int:
        """Let nothing arrive any more, either way, in about this share of the connections.

        Returns how many connections hang now.
        """
        hung = 0
        for one in list(self.connections):
            if self._chance.random() < share and not one.pipe.hangs:
                one.pipe.hangs = one.pipe.target.pipe.hangs = True
                hung += 1
        return hung

    def ended(self, process: Process, *, silently: bool = False) -> None:
        """Remove a process that ended: its servers stop and its connections break.

        Its peers get a reset at once from its kernel; if the machine lost power (`silently`), only
        some seconds later.
        """
        for server in [one for one in self._servers.values() if one.process is process]:
            self.forget(server)
        for one in [one for one in self.connections if one.process is process]:
            del self.connections[one]
            if silently:
                peer = one.pipe.target
                peer.peer_lost_power = True
                delay_s = self._chance.uniform(2.0, 20.0)
                self.loop.call_later(delay_s, peer.post, peer.reset, context=self.context)
            else:
                one.pipe.send(RESET)

    # -- for the loop

    def listen(self, factory: Any, port: int) -> Server:
        """Open a port on the host of the current process. Raises `OSError` if it is in use."""
        process = PROCESS.get()
        assert process is not None, "only a process listens"
        if (process.host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, "address in use")
        server = Server(self, factory, process, port)
        self._servers[process.host, port] = server
        return server

    def server(self, port: int) -> Server:
        """The server on this port of the host of the current process."""
        process = PROCESS.get()
        assert process is not None, "only a process listens"
        return self._servers[process.host, port]

    def forget(self, server: Server) -> None:
        """Free the port of a server that was closed, unless another server already has it."""
        key = (server.process.host, server.port)
        if self._servers.get(key) is server:
            del self._servers[key]

    async def connect(
        self, factory: Any, host: str, port: int, handshake: Handshake | None = None
    ) -> tuple[Transport, Any]:
        """Connect the current process to a server. Raises `OSError`.

        The first label of the DNS name `host` is the simulated host. With a `handshake` the
        protocol gets the connection when that is complete.
        """
        process = PROCESS.get()
        assert process is not None, "only a process connects"
        target = host.split(".", maxsplit=1)[0]
        await asyncio.sleep(self.delay_s() + self.delay_s())
        if not (self.is_open(process.host, target) and self.is_open(target, process.host)):
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            self.given_up.append((process.name, self.loop.time()))
            raise TimeoutError(errno.ETIMEDOUT, "nobody answers")
        server = self._servers.get((target, port))
        if server is None or not server.is_serving or (target, port) in self.refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        self._port += 1
        here = Transport(self, process, (target, port))
        there = Transport(self, server.process, (process.host, self._port))
        here.pipe, there.pipe = _Pipe(self, here, there), _Pipe(self, there, here)
        self.connections[here] = self.connections[there] = None
        if handshake is not None and server.begin is not None:
            there.post(server.begin, handshake.accepted(there), process.host, self._port)
            await handshake.opened(here)
        else:
            there.post(_accept, there, server)
        protocol = factory()
        here.set_protocol(protocol)
        protocol.connection_made(here)
        return here, protocol


def _accept(there: Transport, server: Server) -> None:
    """The server's part of a new connection, run in the server's process."""
    protocol = server.factory()
    there.set_protocol(protocol)
    protocol.connection_made(there)
