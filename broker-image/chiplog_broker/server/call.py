"""One request on its way through a handler."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.requests import RequestHeader

logger = logging.getLogger(__name__)

M = TypeVar("M")
Answer: TypeAlias = list[bytes]
Encode: TypeAlias = "Callable[[Call[Any], object], Answer]"


class Call(Generic[M]):
    """A decoded request, who sent it, and how an answer becomes bytes."""

    __slots__ = ("_encode", "began_s", "header", "message", "peer")

    def __init__(
        self, header: RequestHeader, message: M, peer: Peer, began_s: float, encode: Encode
    ) -> None:
        self.header = header
        self.message = message
        self.peer = peer
        self.began_s = began_s
        self._encode = encode

    def encode(self, message: object) -> Answer:
        """What is sent for an answer's message; to be called once, at any time."""
        return self._encode(self, message)

    def answer(self, future: asyncio.Future[Answer], make: Callable[[], object]) -> None:
        """Complete a future that waits for this call's answer, whatever happens on the way.

        Does nothing where it is complete, or where `make` returns None: it goes on waiting.
        """
        if future.done():
            return
        try:
            message = make()
            if message is not None:
                future.set_result(self.encode(message))
        except Exception as fault:
            # Callbacks have nobody to raise to; whoever holds the future closes the connection.
            logger.exception("request_failed", extra={"api": self.header.api.name})
            future.set_exception(fault)


class SlowRequest:
    """What is left to do of a request that takes long, behind which nothing may start.

    The frame of the request stays as it is until then. The work ends as a coroutine does, or
    with a future for the bytes, or with None where nothing is answered.
    """

    __slots__ = ("work",)

    def __init__(self, work: Coroutine[Any, Any, object]) -> None:
        self.work = work


# A message is answered at once, None is not answered at all, a future is already bytes,
# and a coroutine is run and ends with the message.
Outcome: TypeAlias = (
    object | asyncio.Future[Answer] | Coroutine[Any, Any, object] | SlowRequest | None
)
Handler: TypeAlias = Callable[[Call[Any]], Outcome]
