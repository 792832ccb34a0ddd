"""The protocol's client on a blocking socket: requests out, answers in, one broker."""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from chiplog_wire.client.connection import Answer, ClientConnection, encoded
from chiplog_wire.protocol.apis import ApiKey
from e2e.kafka.messages import request, response


class Connection:
    """One connection, which stays at the address that it was opened to.

    Everything raises `OSError` where the broker does not answer in time or closes the connection,
    and `ProtocolViolation` where it answers something else.
    """

    def __init__(
        self, address: tuple[str, int], timeout_s: float, own_host: str | None = None
    ) -> None:
        """`own_host` is the address to connect from; None for any."""
        self._wire = ClientConnection(None)
        source = None if own_host is None else (own_host, 0)
        self._socket = socket.create_connection(address, timeout_s, source)

    def send(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> None:
        """Send a request, as `messages` makes it, without waiting for the answer."""
        body = encoded(request(key, version, values))
        self._socket.sendall(b"".join(self._wire.send(key, version, [body])))

    def receive(self, timeout_s: float | None = None) -> Any:
        """The response, as kio's dataclass, to the oldest request without one.

        `timeout_s` limits each read of the socket; None keeps the last limit.
        """
        answer = self.receive_answer(timeout_s)
        return response(answer.call.api.key, answer.call.version, answer.body)

    def receive_answer(self, timeout_s: float | None = None) -> Answer:
        """As `receive`, but not decoded."""
        if timeout_s is not None:
            self._socket.settimeout(timeout_s)
        received = 0
        while (answer := self._wire.next_answer()) is None:
            count = self._socket.recv_into(self._wire.get_buffer())
            if not count:
                raise ConnectionError(f"closed after {received} bytes of an answer")
            self._wire.buffer_updated(count)
            received += count
        return answer

    def ask(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """Send a request, and receive its answer."""
        self.send(key, version, values)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()
