"""From a request to its answer: decode, hand to its handler, encode, count.

Every API that is advertised has a handler here, and a test holds the two tables together.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from chiplog_broker.handlers.call import Answer, Call, Handler
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.codec import decode_request, encode_response
from chiplog_broker.protocol.codec.api_versions import encode_unsupported_version
from chiplog_broker.protocol.errors import ProtocolViolation
from chiplog_broker.protocol.messages import Chunk
from chiplog_broker.protocol.requests import Request, RequestHeader, UnsupportedApiVersions
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_broker.storage.log import LogSlice

log = logging.getLogger(__name__)


class Dispatcher:
    """Answers requests of all connections."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], metrics: RequestMetrics) -> None:
        self._handlers = handlers
        self._metrics = metrics
        self._running: set[asyncio.Task[Answer]] = set()

    def start(
        self, request: Request | UnsupportedApiVersions, peer: Peer
    ) -> Answer | asyncio.Future[Answer]:
        """Begin a request. Raises `ProtocolViolation`, also for a fault of our own."""
        if isinstance(request, UnsupportedApiVersions):
            return [encode_unsupported_version(request.correlation_id)]
        header = request.header
        done = self._metrics.started(header.api_key, len(request.body))
        encode = partial(self._encode, header, done)
        try:
            call = Call(header, decode_request(request), peer, encode)
            outcome = self._handlers[header.api_key](call)
            if outcome is None:
                done(0)
                return []
            if isinstance(outcome, asyncio.Future):
                return outcome
            if isinstance(outcome, Coroutine):
                return self._run(call, outcome)
            return encode(outcome)
        except ProtocolViolation:
            raise
        except Exception as fault:
            # A fault must cost one connection and not the broker; the client tries again.
            log.exception("request_failed", extra={"api": header.api_key.name})
            raise ProtocolViolation("the request failed") from fault

    def _run(self, call: Call[Any], outcome: Coroutine[Any, Any, object]) -> asyncio.Task[Answer]:
        async def answer() -> Answer:
            try:
                return call.encode(await outcome)
            except Exception:
                log.exception("request_failed", extra={"api": call.header.api_key.name})
                raise

        task = asyncio.get_running_loop().create_task(answer())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _encode(self, header: RequestHeader, done: Any, message: object) -> Answer:
        answer = [in_memory(chunk) for chunk in encode_response(header, message)]
        done(sum(map(len, answer)))
        return answer


def in_memory(chunk: Chunk) -> bytes:
    """A piece of an answer as bytes; a slice of a log is read now."""
    if isinstance(chunk, LogSlice):
        return chunk.read()
    assert isinstance(chunk, bytes), f"{type(chunk).__name__} in an answer"
    return chunk
