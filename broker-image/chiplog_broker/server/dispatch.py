"""Handles a request: decodes it, calls its handler, encodes the answer, and counts both.

Every advertised API has a handler, which a test checks.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields, is_dataclass
from types import CoroutineType
from typing import Any, Final, TypeVar

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.server.call import Answer, Call, Handler, SlowRequest
from chiplog_broker.server.connection import BlockingRequest
from chiplog_broker.server.file_sending import FileAnswer, in_memory, with_files
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_broker.server.throttling import Throttling
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
"""Requests that are always decoded on the event loop. The first two are large because of their
records, which need no decoding; the others have no arrays."""


class Dispatcher:
    """Handles the requests of all connections."""

    def __init__(
        self,
        handlers: Mapping[ApiKey, Handler],
        metrics: RequestMetrics,
        throttling: Throttling | None = None,
    ) -> None:
        self._handlers = handlers
        self._throttling = throttling or Throttling(SystemClock(), metrics)
        self._metrics = metrics
        self._running: set[asyncio.Task[Any]] = set()
        # One large request at a time is decoded, and one large answer at a time is encoded.
        self._decoding, self._encoding = asyncio.Lock(), asyncio.Lock()

    def start(
        self, request: Request | UnsupportedApiVersions, peer: Peer
    ) -> Answer | FileAnswer | asyncio.Future[Answer] | BlockingRequest:
        """Start a request. Raises `ProtocolViolation`, also for an error in a handler."""
        if isinstance(request, UnsupportedApiVersions):
            return [encode_unsupported_version(request.correlation_id)]
        header = request.header
        key = header.api.key
        self._metrics.apis[key].bytes_in += len(request.body)
        if len(request.body) > LARGE_BODY_BYTES and key not in DECODED_ON_LOOP:
            return BlockingRequest(
                asyncio.get_running_loop().create_task(self._handle_large(request, peer))
            )
        try:
            message = decode_request(request, of_broker=peer.is_internal)
            call = Call(header, message, peer, time.perf_counter(), self._encode)
            if self._throttling.is_active:
                call.usage = self._throttling.begin(header, peer, call.began_s, len(request.body))
            return self._handle_outcome(call, self._handlers[key](call))
        except ProtocolViolation:
            raise
        except Exception as fault:
            # An error costs one connection and not the broker; the client retries.
            logger.exception("request_failed", extra={"api": header.api.name})
            raise ProtocolViolation(
                f"a {header.api.name} request failed: see request_failed in the log"
            ) from fault

    def _handle_outcome(
        self, call: Call[Any], outcome: object
    ) -> Answer | FileAnswer | asyncio.Future[Answer] | BlockingRequest:
        """The answer, or a future of it, from what a handler returned (`call.Outcome`)."""
        if outcome is None:
            self._count(call, [])
            return []
        waits = asyncio.Future, CoroutineType, SlowRequest
        if call.usage is not None and isinstance(outcome, waits):
            call.usage.pause()
        if isinstance(outcome, asyncio.Future):
            return outcome
        if isinstance(outcome, CoroutineType):
            return self._run(call, outcome)
        if isinstance(outcome, SlowRequest):
            answer = asyncio.get_running_loop().create_task(self._finish(call, outcome))
            answer.add_done_callback(lambda _: close_unstarted(outcome.work))
            return BlockingRequest(answer)
        return self._encode_now(call, outcome)

    async def _handle_large(self, request: Request, peer: Peer) -> Answer:
        """Handle a request that may name thousands of partitions.

        It is decoded and its answer is encoded in another thread, one at a time. Its handler runs
        in slices.
        """
        api, began_s = request.header.api, time.perf_counter()
        usage = None
        try:
            async with self._decoding:
                if self._throttling.is_active:
                    now_s, size_bytes = time.perf_counter(), len(request.body)
                    usage = self._throttling.begin(request.header, peer, now_s, size_bytes)
                message = await in_thread(decode_request, request)
            unencoded: list[object] = []

            def keep(_: Call[Any], answer: object) -> Answer:
                """Keep an answer instead of encoding it on the event loop."""
                unencoded.append(answer)
                return []

            call = Call(request.header, message, peer, began_s, keep, usage)
            outcome = self._handlers[api.key](call)
            if usage is not None:
                usage.pause()
            if isinstance(outcome, SlowRequest):
                # Nothing else of this connection runs meanwhile in any case.
                outcome = outcome.work
            if isinstance(outcome, CoroutineType):
                outcome = await self._run_to_end(measured(call, outcome))
            if isinstance(outcome, asyncio.Future):
                await outcome
                (outcome,) = unencoded
            return await self._encode_in_thread(call, outcome)
        except ProtocolViolation:
            raise
        except Exception:
            logger.exception("request_failed", extra={"api": api.name})
            raise

    async def _encode_in_thread(self, call: Call[Any], message: object) -> Answer:
        """Encode a large answer in another thread, one at a time, and count it in the metrics."""
        async with self._encoding:
            if call.usage is not None:
                message = call.usage.answered(message)
            chunks = await in_thread(encode_response, call.header, message)
        self._count(call, chunks)
        return [in_memory(chunk) for chunk in chunks]

    async def drain(self) -> None:
        """Return when no request is running that must not be interrupted (`_run_to_end`)."""
        while self._running:
            await asyncio.wait(self._running)

    def _run(self, call: Call[Any], outcome: Coroutine[Any, Any, object]) -> asyncio.Future[Answer]:
        """Run a handler's coroutine, and encode the message that it returns; a future of an encoded
        answer is awaited."""

        async def answer() -> Answer:
            try:
                message = await measured(call, outcome)
                if isinstance(message, asyncio.Future):
                    answer: Answer = await message
                    return answer
                if is_large(message):
                    return await self._encode_in_thread(call, message)
                return call.encode(message)
            except Exception:
                logger.exception("request_failed", extra={"api": call.header.api.name})
                raise

        return self._run_to_end(answer())

    async def _finish(self, call: Call[Any], slow: SlowRequest) -> Answer:
        """The encoded answer of a slow request: a Produce that takes several slices.

        All batches are appended even if the client disconnects. If the request then waits for
        replicas, that wait ends with the connection.
        """

        async def work() -> asyncio.Future[Answer] | Answer:
            """Do the work. Returns the encoded answer, which is empty for acks=0 because a Produce
            with acks=0 gets none; or a future of it, if batches wait for replicas."""
            try:
                found = await measured(call, slow.work)
                if found is None:
                    self._count(call, [])
                    return []
                if is_large(found):
                    return await self._encode_in_thread(call, found)
                return found if isinstance(found, asyncio.Future) else call.encode(found)
            except ProtocolViolation:
                raise
            except Exception:
                logger.exception("request_failed", extra={"api": call.header.api.name})
                raise

        done = await self._run_to_end(work())
        return await done if isinstance(done, asyncio.Future) else done

    def _run_to_end(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run a coroutine to its end even if the client disconnects, because its request must not
        be carried out in part."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return asyncio.shield(task)

    def _encode(self, call: Call[Any], message: object) -> Answer:
        """Encode an answer that is sent later. Its records are read now, because their files may be
        deleted by then."""
        if call.usage is not None:
            message = call.usage.answered(message)
        chunks = encode_response(call.header, message)
        self._count(call, chunks)
        answer = [in_memory(chunk) for chunk in chunks]
        if call.peer.memory is not None:
            call.peer.memory.answer_made(sum(map(len, answer)))
        return answer

    def _encode_now(self, call: Call[Any], message: object) -> Answer | FileAnswer:
        """Encode an answer that is sent at once. Large parts of records may stay in their files."""
        if call.usage is not None:
            message = call.usage.answered(message)
        chunks = encode_response(call.header, message)
        self._count(call, chunks)
        return with_files(chunks)

    def _count(self, call: Call[Any], answer: list[Chunk]) -> None:
        """Count the duration of a request and the bytes of its answer in the API's metrics."""
        counters = self._metrics.apis[call.header.api.key]
        counters.latency.observe(time.perf_counter() - call.began_s)
        for piece in answer:
            counters.bytes_out += records_size(piece)
        if call.usage is not None:
            call.usage.encoded(sum(map(records_size, answer)))


def measured(call: Call[Any], work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """The work on a request; what it takes is counted if the client is limited."""
    return work if call.usage is None else call.usage.measure(work)


def is_large(message: object) -> bool:
    """Whether a kio message has many elements, in all its arrays together."""
    return remaining_elements(message, LARGE_ANSWER) < 0


def remaining_elements(message: object, limit: int) -> int:
    """`limit` minus the number of array elements in a kio message and in its nested messages.

    The count stops when the result is negative: then the message is large, whatever the rest is.
    """
    if not is_dataclass(message):
        return limit
    remaining = limit
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            remaining -= len(value)
            for element in value:
                if remaining < 0:
                    return remaining
                remaining = remaining_elements(element, remaining)
    return remaining


def close_unstarted(work: Coroutine[Any, Any, object]) -> None:
    """Close the work of a request whose client disconnected before it began."""
    if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Call a function in another thread. Python switches threads every few milliseconds, so the
    event loop continues in the meantime."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)
