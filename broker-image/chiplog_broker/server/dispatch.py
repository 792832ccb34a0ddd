"""From a request to its answer: decode, call the handler, encode, count.

Every advertised API has a handler, which a test checks.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields, is_dataclass
from types import CoroutineType
from typing import Any, Final, TypeVar

from chiplog_broker.server.call import Answer, Call, Handler, SlowRequest
from chiplog_broker.server.connection import Alone
from chiplog_broker.server.file_sending import FileAnswer, in_memory, with_files
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import decode_request, encode_response
from chiplog_wire.protocol.codec.api_versions import encode_unsupported_version
from chiplog_wire.protocol.codec.fetch_response import records_size
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.messages import Chunk
from chiplog_wire.protocol.requests import Request, UnsupportedApiVersions

logger = logging.getLogger(__name__)

T = TypeVar("T")

LARGE_BODY_BYTES: Final = 16 * 2**10
"""Requests of this size are decoded in another thread: they may name thousands of partitions."""
LARGE_ANSWER: Final = 256
"""Answers with this many elements are encoded in another thread."""
DECODED_ON_LOOP: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)
"""Requests that are large because of their records, decoded quickly, or without arrays."""


class Dispatcher:
    """Answers requests of all connections."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], metrics: RequestMetrics) -> None:
        self._handlers = handlers
        self._metrics = metrics
        self._running: set[asyncio.Task[Any]] = set()
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()

    def start(
        self, request: Request | UnsupportedApiVersions, peer: Peer
    ) -> Answer | FileAnswer | asyncio.Future[Answer] | Alone:
        """Start a request. Raises `ProtocolViolation`, also for an error in a handler."""
        if isinstance(request, UnsupportedApiVersions):
            return [encode_unsupported_version(request.correlation_id)]
        header = request.header
        key = header.api.key
        self._metrics.apis[key].bytes_in += len(request.body)
        if len(request.body) > LARGE_BODY_BYTES and key not in DECODED_ON_LOOP:
            return Alone(asyncio.get_running_loop().create_task(self._large(request, peer)))
        try:
            message = decode_request(request, of_broker=peer.is_internal)
            call = Call(header, message, peer, time.perf_counter(), self._encode)
            return self._handle_outcome(call, self._handlers[key](call))
        except ProtocolViolation:
            raise
        except Exception as fault:
            # An error costs one connection and not the broker; the client retries.
            logger.exception("request_failed", extra={"api": header.api.name})
            raise ProtocolViolation("the request failed") from fault

    def _handle_outcome(
        self, call: Call[Any], outcome: object
    ) -> Answer | FileAnswer | asyncio.Future[Answer] | Alone:
        if outcome is None:
            self._count(call, [])
            return []
        if isinstance(outcome, asyncio.Future):
            return outcome
        if isinstance(outcome, CoroutineType):
            return self._run(call, outcome)
        if isinstance(outcome, SlowRequest):
            return Alone(asyncio.get_running_loop().create_task(self._finish(call, outcome)))
        return self._encode_now(call, outcome)

    async def _large(self, request: Request, peer: Peer) -> Answer:
        """A request that may name thousands of partitions: decoded and encoded in another thread,
        one at a time. Its handler runs in slices."""
        api, began_s = request.header.api, time.perf_counter()
        try:
            async with self._reading:
                message = await in_thread(decode_request, request)
            unwritten: list[object] = []

            def keep(_: Call[Any], answer: object) -> Answer:
                unwritten.append(answer)
                return []

            call = Call(request.header, message, peer, began_s, keep)
            outcome = self._handlers[api.key](call)
            if isinstance(outcome, CoroutineType):
                outcome = await self._run_to_end(outcome)
            if isinstance(outcome, asyncio.Future):
                await outcome
                (outcome,) = unwritten
            return await self._encode_in_thread(call, outcome)
        except ProtocolViolation:
            raise
        except Exception:
            logger.exception("request_failed", extra={"api": api.name})
            raise

    async def _encode_in_thread(self, call: Call[Any], message: object) -> Answer:
        async with self._writing:
            chunks = await in_thread(encode_response, call.header, message)
        self._count(call, chunks)
        return [in_memory(chunk) for chunk in chunks]

    async def drain(self) -> None:
        """Return when no request is running that changes something."""
        while self._running:
            await asyncio.wait(self._running)

    def _run(self, call: Call[Any], outcome: Coroutine[Any, Any, object]) -> asyncio.Future[Answer]:
        async def answer() -> Answer:
            try:
                message = await outcome
                if is_large(message):
                    return await self._encode_in_thread(call, message)
                return call.encode(message)
            except Exception:
                logger.exception("request_failed", extra={"api": call.header.api.name})
                raise

        return self._run_to_end(answer())

    async def _finish(self, call: Call[Any], slow: SlowRequest) -> Answer:
        """The answer of a slow request; waiting for records is not part of its work."""

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

        done = await self._run_to_end(work())
        return await done if isinstance(done, asyncio.Future) else done

    def _run_to_end(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run to the end even if the client disconnects: its request must not be carried out in
        part."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return asyncio.shield(task)

    def _encode(self, call: Call[Any], message: object) -> Answer:
        """Encode an answer that is sent later: by then files may be deleted."""
        chunks = encode_response(call.header, message)
        self._count(call, chunks)
        answer = [in_memory(chunk) for chunk in chunks]
        if call.peer.memory is not None:
            call.peer.memory.answer_made(sum(map(len, answer)))
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


def is_large(message: object) -> bool:
    """Whether a kio message has many elements, in all its arrays together."""
    return elements_left(message, LARGE_ANSWER) < 0


def elements_left(message: object, most: int) -> int:
    """How many more elements are allowed; stops counting below 0."""
    if not is_dataclass(message):
        return most
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            most -= len(value)
            for element in value:
                if most < 0:
                    return most
                most = elements_left(element, most)
    return most


async def in_thread(call: Callable[..., T], *given: Any) -> T:
    """Run in a thread, and return or raise its result. Threads alternate every few milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *given)
