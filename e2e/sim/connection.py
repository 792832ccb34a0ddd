"""A simulated client's connection: `chiplog_wire.client` on the running loop's network."""

import asyncio
from collections import deque
from typing import cast

from chiplog_wire.client.connection import ClientConnection, encoded
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation


class Connection(asyncio.BufferedProtocol):
    """One connection to one broker, closed with the first error."""

    def __init__(self, client_id: str) -> None:
        self._wire = ClientConnection(client_id)
        self._pending: deque[asyncio.Future[memoryview]] = deque()
        self._transport: asyncio.Transport | None = None
        self._error: OSError | None = None

    async def connect(self, host: str, port: int) -> None:
        """Raises `OSError`."""
        await asyncio.get_running_loop().create_connection(lambda: self, host, port)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._error is None

    async def exchange(
        self, key: ApiKey, version: int, message: object, timeout_s: float
    ) -> memoryview:
        """Send kio's message; the body of the answer. Raises `OSError`.

        Answers come in the order of requests, so a late one ends the connection.
        """
        if self._transport is None or self._error is not None:
            raise self._error or ConnectionError("not connected")
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._pending.append(answer)
        self._transport.writelines(self._wire.send(key, version, [encoded(message)]))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            late = TimeoutError(f"no answer to {APIS[key].name} within {timeout_s:g} s")
            self._fail(late)
            raise late from None

    def close(self) -> None:
        self._fail(ConnectionAbortedError("closed by the client"))

    def _fail(self, error: OSError) -> None:
        """Close the connection; requests without an answer fail with its first error."""
        if self._error is None:
            self._error = error
        if self._transport is not None:
            self._transport.abort()
        while self._pending:
            answer = self._pending.popleft()
            if not answer.done():
                answer.set_exception(self._error)

    # -- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._wire.buffer_updated(nbytes)
        if self._error is not None:
            return
        try:
            while (answer := self._wire.next_answer()) is not None:
                pending = self._pending.popleft()
                # A cancelled request's answer is not wanted.
                if not pending.done():
                    pending.set_result(answer.body)
        except ProtocolViolation as violation:
            self._fail(ConnectionAbortedError(str(violation)))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionResetError(str(exc or "closed by the broker")))
        self._transport = None
