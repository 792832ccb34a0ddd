"""Health ports of pretended brokers: who answers, who hangs, who refuses."""

import asyncio
import errno
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
UNREACHABLE = OSError(errno.EHOSTUNREACH, "no route to host")
RESET = ConnectionResetError(errno.ECONNRESET, "reset")
TIMED_OUT = TimeoutError(errno.ETIMEDOUT, "timed out")


class _Transport(asyncio.Transport):
    """The operator's end of a connection."""

    def __init__(self, network: "PodNetwork", host: str, protocol: Any) -> None:
        super().__init__()
        self._network, self.host, self.protocol = network, host, protocol
        self.is_open = True

    def write(self, data: Any) -> None:
        said = self._network.says.get(self.host)
        if bytes(data).startswith(b"GET /incarnation HTTP/1.0\r\n") and said is not None:
            self._soon(self.protocol.data_received, said)

    def abort(self) -> None:
        self.end()

    def end(self) -> None:
        if self.is_open:
            self.is_open = False
            self._soon(self.protocol.connection_lost, None)

    def _soon(self, callback: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_soon(callback, *args)


class PodNetwork:
    """A `Net` port."""

    def __init__(self) -> None:
        self.says: dict[str, bytes] = {}
        """What whoever listens at a host answers; nobody listens at the others."""
        self.faults: defaultdict[str, deque[OSError | None]] = defaultdict(deque)
        """What the next connections to a host fail with, one after another."""
        self.tried: Counter[str] = Counter()
        self._transports: list[_Transport] = []

    async def connect(self, protocol: P, host: str, port: int) -> P:
        assert port == 8080
        self.tried[host] += 1
        await asyncio.sleep(0)
        fault = self.faults[host].popleft() if self.faults[host] else None
        if fault is None and host not in self.says:
            fault = REFUSED
        if fault is not None:
            raise fault
        transport = _Transport(self, host, protocol)
        self._transports.append(transport)
        protocol.connection_made(transport)
        return protocol

    def open_to(self, host: str) -> int:
        """Connections that are open."""
        return sum(one.is_open for one in self._transports if one.host == host)

    def listen(self, host: str, incarnation: str) -> None:
        """From now on this process listens there."""
        self.answer(host, f"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{incarnation}\n")

    def answer(self, host: str, text: str) -> None:
        self.says[host] = text.encode()

    def hang(self, host: str) -> None:
        """Whoever listens there says nothing."""
        self.says[host] = b""

    def close(self, host: str, *faults: OSError | None) -> None:
        """Connections end; new ones fail so, then those after that succeed."""
        self.faults[host].extend(faults)
        for one in self._transports:
            if one.host == host:
                one.end()

    def die(self, host: str) -> None:
        """The process ends."""
        self.says.pop(host, None)
        self.close(host)
