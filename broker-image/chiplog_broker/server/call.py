"""One request during its handling."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

from chiplog_broker.server.peer import Peer
from chiplog_broker.server.throttling import Usage
from chiplog_wire.protocol.requests import RequestHeader

logger = logging.getLogger(__name__)

M = TypeVar("M")
Answer: TypeAlias = list[bytes]
Encode: TypeAlias = "Callable[[Call[Any], object], Answer]"


class Call(Generic[M]):
    """A decoded request with its sender, and the function that encodes its answer."""

    __slots__ = ("_encode", "began_s", "header", "message", "peer", "usage")

    def __init__(
        self,
        header: RequestHeader,
        message: M,
        peer: Peer,
        began_s: float,
        encode: Encode,
        usage: Usage | None = None,
    ) -> None:
        """`usage` counts what the request uses; None if its client is not limited."""
        self.header = header
        self.message = message
        self.peer = peer
        self.began_s = began_s  # of `time.perf_counter`, to measure the duration
        self.usage = usage
        self._encode = encode

    def encode(self, message: object) -> Answer:
        """Encode a call's answer and count it in the metrics. To be called once per call."""
        return self._encode(self, message)

    def answer(self, future: asyncio.Future[Answer], make: Callable[[], object]) -> None:
        """Complete a future with the encoded message that `make` returns, or with its exception.

        Does nothing if the future is already complete, or if `make` returns None: then the call
        continues to wait for its answer.
        """
        if future.done():
            return
        if self.usage is not None:
            self.usage.resume()
        try:
            message = make()
            if message is not None:
                future.set_result(self.encode(message))
        except Exception as fault:
            # A callback has no caller: the future gets the error, and the connection closes.
            logger.exception("request_failed", extra={"api": self.header.api.name})
            future.set_exception(fault)
        finally:
            if self.usage is not None:
                self.usage.pause()


class SlowRequest:
    """The rest of a request that takes long; no other request of its connection starts before it
    ends.

    The frame of the request stays valid until then. The coroutine `work` returns a message, a
    future of the encoded answer, or None for no answer.
    """

    __slots__ = ("work",)

    def __init__(self, work: Coroutine[Any, Any, object]) -> None:
        self.work = work


# A message is answered immediately, and None is not answered. A future has the encoded answer, and
# a coroutine returns a message.
Outcome: TypeAlias = (
    object | asyncio.Future[Answer] | Coroutine[Any, Any, object] | SlowRequest | None
)
Handler: TypeAlias = Callable[[Call[Any]], Outcome]
