"""One request to the API server, and what can go wrong on the way.

What is read is bounded, and connections that died without a word are noticed. Nothing is retried
here: only the caller knows whether a write may be made twice. (aiohttp itself repeats a GET once
where a kept connection turns out to be closed.) The exception is a request that the server refused
since it did not know who we are, where a login has a newer answer to that: it did nothing.

aiohttp is imported with the first request: brokers import this package at their start.
"""

import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chiplog_kube.answers import error_of, parsed
from chiplog_kube.api import ApiError, Forbidden, Manifest, Unavailable
from chiplog_kube.connection import Connection, NoConnection
from chiplog_kube.lines import LineTooLong
from chiplog_kube.request_meter import NO_ANSWER, About, RequestMeter

if TYPE_CHECKING:
    import aiohttp

USER_AGENT = "chiplog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long to wait, and how much to read."""

    connect_s: float = 5.0
    request_s: float = 15.0
    list_s: float = 60.0
    watch_s: int = 300
    """After this the server ends a watch, and the next one begins."""
    silence_s: float = 120.0
    """A watch without a word for this long is dead: the server sends a bookmark every minute."""
    page_items: int = 500
    answer_bytes: int = 64 * 1024 * 1024
    event_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the API server. `endless` is set for a watch, whose answer has no end."""

    about: About
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = field(default="application/json", kw_only=True)
    accept: str = field(default="application/json", kw_only=True)
    timeout_s: float | None = field(default=None, kw_only=True)
    endless: bool = field(default=False, kw_only=True)

    def data(self) -> bytes | None:
        """The body as JSON; None without a body."""
        if self.body is None:
            return None
        return json.dumps(self.body, separators=(",", ":")).encode()


class HttpTransport:
    """Keeps connections; `close` it."""

    def __init__(self, connection: Connection, limits: Limits, meter: RequestMeter) -> None:
        self._limits = limits
        self._meter = meter
        self._connection = connection
        self._session: aiohttp.ClientSession | None = None
        self._session_pem = b""
        self._old_session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        for session in (self._session, self._old_session):
            if session is not None:
                await session.close()
        self._session = self._old_session = None

    async def call(self, request: Request) -> Manifest:
        """Send a request and return the JSON object of the answer. Raises `ApiError`s."""
        async with self.answer(request) as answer:
            return parsed(await self._read(answer))

    @asynccontextmanager
    async def answer(self, request: Request) -> "AsyncIterator[aiohttp.ClientResponse]":
        """An answer with status 2xx, whose body is not read yet. Raises `ApiError` for all
        others."""
        import aiohttp  # noqa: PLC0415

        what = f"{request.method} {request.path}"
        try:
            async with await self._sent(request) as answer:
                if not 200 <= answer.status < 300:
                    raise error_of(request.method, answer.status, await self._read(answer))
                try:
                    yield answer
                finally:
                    if request.endless and answer.connection and answer.connection.transport:
                        # Closing TLS properly could wait half a minute for a server that is gone.
                        answer.connection.transport.abort()
        except TimeoutError as error:
            why = (
                "the watch has sent nothing for too long"
                if request.endless
                else "no answer in time"
            )
            raise Unavailable(f"{what}: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{what}: {type(error).__name__}: {error}") from error
        except LineTooLong as error:
            raise ApiError(f"{what}: {error}") from error

    async def _sent(self, request: Request) -> "aiohttp.ClientResponse":
        """Send a request and return the answer. After a 401 it is sent once more with a new
        identity, if there is one."""
        login = self._connection.login
        if login is None:
            return await self._sent_once(request)
        try:
            version = await login.fresh()
        except NoConnection as error:
            raise Unavailable(f"{request.method} {request.path}: {error}") from error
        answer = await self._sent_once(request)
        if answer.status != 401:
            return answer
        try:
            has_another = await login.refused(version)
        except NoConnection as error:
            answer.close()
            raise Forbidden(f"the server refused the login twice (401): {error}") from error
        if not has_another:
            return answer
        answer.close()
        return await self._sent_once(request)

    async def _sent_once(self, request: Request) -> "aiohttp.ClientResponse":
        """Send a request once and measure it."""
        import aiohttp  # noqa: PLC0415

        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=None if request.endless else request.timeout_s or limits.request_s,
            sock_connect=limits.connect_s,
            sock_read=limits.silence_s if request.endless else None,
        )
        headers = {
            "Accept": request.accept,
            "Content-Type": request.content_type,
            **self._connection.headers(),
        }
        began_s, code = time.perf_counter(), NO_ANSWER
        try:
            answer = await (await self._opened()).request(
                request.method,
                self._connection.server + request.path,
                params=request.query,
                data=request.data(),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._connection.proxy or None,
                server_hostname=self._connection.server_name or None,
            )
            code = str(answer.status)
            return answer
        finally:
            self._meter.answered(request.about, code, time.perf_counter() - began_s)

    async def _opened(self) -> "aiohttp.ClientSession":
        """A session with the present client certificate. The session with the previous one is
        kept until its requests end."""
        login = self._connection.login
        pem = login.identity.pem if login else b""
        if self._session is not None and pem != self._session_pem:
            if self._old_session is not None:
                await self._old_session.close()
            self._old_session, self._session = self._session, None
        if self._session is None:
            import aiohttp  # noqa: PLC0415

            context = self._connection.ssl_context()
            self._session_pem = pem
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    ssl=True if context is None else context,
                    socket_factory=_socket,
                ),
                headers={"User-Agent": USER_AGENT},
                # An object of 1.5 MiB is one line of a watch.
                read_bufsize=1024 * 1024,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _read(self, answer: "aiohttp.ClientResponse") -> bytes:
        """The answer's body. Raises `ApiError` if it is longer than the limit."""
        parts, size = [], 0
        async for chunk in answer.content.iter_any():
            size += len(chunk)
            if size > self._limits.answer_bytes:
                raise ApiError(f"the answer has more than {self._limits.answer_bytes} bytes")
            parts.append(chunk)
        return b"".join(parts)


def _socket(address: Any) -> socket.socket:
    """A socket that notices within half a minute if the other side disappears."""
    family, kind, protocol, _, _ = address
    new_socket = socket.socket(family, kind, protocol)
    new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 25_000),
    ):
        if hasattr(socket, option):  # not every system has all of them
            new_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return new_socket
