"""One request on its way through a handler."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chiplog_broker.protocol.requests import RequestHeader
from chiplog_broker.server.peer import Peer

M = TypeVar("M")
Answer = list[bytes]


@dataclass(slots=True)
class Call(Generic[M]):
    """A decoded request, who sent it, and how an answer becomes bytes."""

    header: RequestHeader
    message: M
    peer: Peer
    encode: Callable[[object], Answer]
    """Turns the answer's message into what is sent; may be called once, at any time."""


# A message is answered at once, None is not answered at all, a future is already bytes,
# and a coroutine is run and ends with the message.
Outcome = object | None | asyncio.Future[Answer] | Coroutine[Any, Any, object]
Handler = Callable[[Call[Any]], Outcome]
