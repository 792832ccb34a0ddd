"""From a request to its answer: decode, hand to its handler, encode, count.

Every API that is advertised has a handler here, and a test holds the two tables together.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from types import CoroutineType
from typing import Any, TypeVar

from chiplog_broker.handlers.call import Answer, Call, Handler, Slow
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.codec import decode_request, encode_response
from chiplog_broker.protocol.codec.api_versions import encode_unsupported_version
from chiplog_broker.protocol.codec.fetch_response import records_size
from chiplog_broker.protocol.errors import ProtocolViolation
from chiplog_broker.protocol.messages import Chunk
from chiplog_broker.protocol.requests import Request, UnsupportedApiVersions
from chiplog_broker.server.connection import Alone
from chiplog_broker.server.file_sending import FileAnswer, in_memory, with_files
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Dispatcher:
    """Answers requests of all connections."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], metrics: RequestMetrics) -> None:
        self._handlers = handlers
        self._metrics = metrics
        self._running: set[asyncio.Task[Any]] = set()

    def start(
        self, request: Request | UnsupportedApiVersions, peer: Peer
    ) -> Answer | FileAnswer | asyncio.Future[Answer] | Alone:
        """Begin a request. Raises `ProtocolViolation`, also for a fault of our own."""
        if isinstance(request, UnsupportedApiVersions):
            return [encode_unsupported_version(request.correlation_id)]
        header = request.header
        key = header.api.key
        self._metrics.apis[key].bytes_in += len(request.body)
        try:
            message = decode_request(request)
            call = Call(header, message, peer, time.perf_counter(), self._encode)
            outcome = self._handlers[key](call)
            if outcome is None:
                self._count(call, [])
                return []
            if isinstance(outcome, asyncio.Future):
                return outcome
            if isinstance(outcome, CoroutineType):
                return self._run(call, outcome)
            if isinstance(outcome, Slow):
                return Alone(asyncio.get_running_loop().create_task(self._finish(call, outcome)))
            return self._encode_now(call, outcome)
        except ProtocolViolation:
            raise
        except Exception as fault:
            # A fault must cost one connection and not the broker; the client tries again.
            logger.exception("request_failed", extra={"api": header.api.name})
            raise ProtocolViolation("the request failed") from fault

    async def drain(self) -> None:
        """Return when no request runs that changes something."""
        while self._running:
            await asyncio.wait(self._running)

    def _run(self, call: Call[Any], outcome: Coroutine[Any, Any, object]) -> asyncio.Future[Answer]:
        async def answer() -> Answer:
            try:
                return call.encode(await outcome)
            except Exception:
                logger.exception("request_failed", extra={"api": call.header.api.name})
                raise

        return self._to_its_end(answer())

    async def _finish(self, call: Call[Any], slow: Slow) -> Answer:
        """The answer of a request that takes long; what it waits for then is no work of ours."""

        async def work() -> asyncio.Future[Answer] | Answer:
            try:
                found = await slow.work
                if found is None:
                    self._count(call, [])
                    return []
                return found if isinstance(found, asyncio.Future) else call.encode(found)
            except ProtocolViolation:
                raise
            except Exception:
                logger.exception("request_failed", extra={"api": call.header.api.name})
                raise

        done = await self._to_its_end(work())
        return await done if isinstance(done, asyncio.Future) else done

    def _to_its_end(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """A client that leaves must not stop half-way what it asked for."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return asyncio.shield(task)

    def _encode(self, call: Call[Any], message: object) -> Answer:
        """An answer that is sent later: files may be gone by then."""
        chunks = encode_response(call.header, message)
        self._count(call, chunks)
        answer = [in_memory(chunk) for chunk in chunks]
        if call.peer.memory is not None:
            call.peer.memory.promised(sum(map(len, answer)))
        return answer

    def _encode_now(self, call: Call[Any], message: object) -> Answer | FileAnswer:
        chunks = encode_response(call.header, message)
        self._count(call, chunks)
        return with_files(chunks)

    def _count(self, call: Call[Any], answer: list[Chunk]) -> None:
        counters = self._metrics.apis[call.header.api.key]
        counters.latency.observe(time.perf_counter() - call.began_s)
        for piece in answer:
            counters.bytes_out += records_size(piece)
