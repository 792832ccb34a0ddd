"""Answers the operator's inquiries about groups and logs: signed HTTP requests of limited size.

They are served on the health port, where the operator has a connection already. A client without
the secret of the internal listener learns nothing and changes nothing (`chiplog_core.signature`).

| Status | Meaning |
| --- | --- |
| 200 | answered; the body is the JSON of the answer |
| 400 | signed, but the body is invalid: the text says which field |
| 403 | not signed with the secret, or signed too long ago |
| 404 | unknown path; or this broker is standalone |
| 408, 413, 415 | the body was too slow, too large, or compressed |
| 409 | signed for another process |
| 500 | the broker failed: see its log |
| 503 | too many at once, not serving clients, or not answered in time: ask again |

Every answer to a signed request is signed, also an error. JSON is read and written in a thread: a
list of thousands of groups takes longer than clients should wait for the event loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.credentials import CredentialSource
from chiplog_core.ids import Incarnation
from chiplog_core.model.group_exchange import MAX_REQUEST_BYTES, request_from_body, to_body
from chiplog_core.problems import InvalidManifest
from chiplog_core.signature import (
    SIGNATURE_HEADER,
    Message,
    Verdict,
    answer_signature,
    judge,
    message_of,
)

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

MAX_READING: Final = 8
"""Bodies that are read at the same time. Their senders are not authenticated yet."""
MAX_ANSWERING: Final = 2
"""Inquiries that are answered at the same time. Only the operator can sign inquiries, so a low
number delays nobody else."""
MAX_WAITING: Final = 16
"""Signed inquiries that may wait for an answer."""
BODY_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 20.0
LOG_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One kind of inquiry: the type of its request, and the function that answers it."""

    request_class: type[Any]
    """The dataclass of `chiplog_core.model.group_exchange` that the body is parsed into."""

    answer: Callable[[Any], Awaitable[object]]
    """Makes the answer from the parsed body. It may be cancelled at any await when the operator
    disconnects. So it must shield work that must not be done in part."""


Inquiries = Mapping[str, Inquiry]
"""Inquiries by path."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """The status and body of an HTTP answer."""

    status: int
    body: bytes

    @classmethod
    def of_text(cls, status: int, text: str) -> "_Reply":
        return cls(status, f"{text}\n".encode())


class InquiryServer:
    """Answers the inquiries to this process. Before `open` and after `close` the operator gets a
    retriable error."""

    max_body_bytes: ClassVar = MAX_REQUEST_BYTES

    def __init__(self, incarnation: str, clock: Clock, credentials: CredentialSource) -> None:
        self._incarnation = Incarnation(incarnation)
        self._clock = clock
        self._credentials = credentials
        self._inquiries: Inquiries | None = None
        self._reading = 0
        self._waiting = 0
        self._answering = asyncio.Semaphore(MAX_ANSWERING)
        self._logged_s = -LOG_INTERVAL_S

    def open(self, inquiries: Inquiries) -> None:
        """Answer the operator's inquiries from now on; `inquiries` has their handlers by path."""
        self._inquiries = inquiries

    def close(self) -> None:
        """Answer every inquiry with a retriable error from now on."""
        self._inquiries = None

    def serve_in(self, app: "web.Application") -> None:
        app.router.add_post("/{inquiry:.+}", self.handle)

    async def handle(self, request: "web.Request") -> "web.Response":
        """Handle an inquiry, a POST request that only the operator can sign: check its signature,
        answer it, and sign the answer. A request that is refused gets an unsigned error."""
        from aiohttp import web  # noqa: PLC0415 - slow to import

        try:
            body = await self._body(request)
            message, secret, signature = self._signed(request, body)
        except _Refused as refused:
            self._log_refused(request, refused.reply)
            return web.Response(status=refused.reply.status, body=refused.reply.body)
        reply = await self._reply(message)
        signed = await asyncio.to_thread(
            answer_signature, secret, signature, reply.status, reply.body
        )
        return web.Response(
            status=reply.status, body=reply.body, headers={SIGNATURE_HEADER: signed}
        )

    async def _body(self, request: "web.Request") -> bytes:
        """The body of a request whose sender is not known yet, within limits of size, time and
        number.

        Raises `_Refused`.
        """
        from aiohttp import web  # noqa: PLC0415

        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refused(415, "send the body without a Content-Encoding")
        if (request.content_length or 0) > self.max_body_bytes:
            raise _Refused(413, f"the body may have at most {self.max_body_bytes} bytes")
        if self._reading >= MAX_READING:
            raise _Refused(503, "too many requests at once: try again")
        self._reading += 1
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await request.read()
        except TimeoutError:
            raise _Refused(408, f"the body took more than {BODY_TIMEOUT_S:g} s") from None
        except web.HTTPRequestEntityTooLarge:
            raise _Refused(413, f"the body may have at most {self.max_body_bytes} bytes") from None
        finally:
            self._reading -= 1

    def _signed(self, request: "web.Request", body: bytes) -> tuple[Message, str, str]:
        """The inquiry, the secret that was used, and the signature. Raises `_Refused`.

        An inquiry for another process gets 409 without a signature. The operator then reads this
        process's incarnation again, and uses nothing else of the answer.
        """
        found = message_of(request.method, request.raw_path, request.headers, body)
        if found is None:
            raise _Refused(403, Verdict.FORGED)
        message, signature = found
        verdict, secret = judge(
            [user.password for user in self._credentials.accepted()],
            message,
            signature,
            incarnation=self._incarnation,
            now_ms=self._clock.now_ms(),
        )
        if verdict is Verdict.FOR_ANOTHER:
            raise _Refused(409, verdict)
        if verdict is not Verdict.ACCEPTED:
            raise _Refused(403, verdict)
        return message, secret, signature

    async def _reply(self, message: Message) -> _Reply:
        """Answer an inquiry whose signature is valid."""
        if self._inquiries is None:
            return _Reply.of_text(503, "this broker does not serve clients at present: try again")
        inquiry = self._inquiries.get(message.path)
        if inquiry is None:
            return _Reply.of_text(404, f"unknown path {message.path}")
        if self._waiting >= MAX_WAITING:
            return _Reply.of_text(503, "too many requests at once: try again")
        self._waiting += 1
        try:
            return await self._answer(inquiry, message)
        finally:
            self._waiting -= 1

    async def _answer(self, inquiry: Inquiry, message: Message) -> _Reply:
        """Parse the body and answer it, or return the error; at most `MAX_ANSWERING` at a time."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S), self._answering:
                request = await asyncio.to_thread(
                    request_from_body, inquiry.request_class, message.body
                )
                answer = await inquiry.answer(request)
                return _Reply(200, await asyncio.to_thread(to_body, answer))
        except InvalidManifest as problem:
            return _Reply.of_text(400, str(problem))
        except TimeoutError:
            logger.warning("inquiry_not_answered_in_time", extra={"path": message.path})
            return _Reply.of_text(503, f"not answered in {ANSWER_TIMEOUT_S:g} s: ask again")
        except Exception:
            logger.exception("inquiry_failed", extra={"path": message.path})
            return _Reply.of_text(500, "internal error of the broker; see its log")

    def _log_refused(self, request: "web.Request", reply: _Reply) -> None:
        """Log a refused inquiry, at most one in `LOG_INTERVAL_S`: clients that are not
        authenticated must not fill the log."""
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now_s
            extra = {"status": reply.status, "reason": reply.body.decode().strip()}
            logger.warning("inquiry_refused", extra={**extra, "peer": request.remote})


class _Refused(Exception):  # noqa: N818 - not an error of this process
    """The request gets an unsigned answer: its sender did not prove that it knows the secret."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.reply = _Reply.of_text(status, reason)
