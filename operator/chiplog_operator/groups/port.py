"""One signed question to one process of a broker, over its health port."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from chiplog_core.model.group_exchange import MAX_ANSWER_BYTES
from chiplog_core.naming import ports
from chiplog_core.observed.processes import Identity
from chiplog_core.signature import (
    SIGNATURE_HEADER,
    Message,
    is_answer,
    request_headers,
)
from chiplog_operator.clock import Clock

if TYPE_CHECKING:
    import aiohttp

CONNECT_WITHIN_S: Final = 1.0
ANSWER_WITHIN_S: Final = 3.0
FORBIDDEN: Final = 403


class NoAnswer(Exception):  # noqa: N818 - named for what it says
    """A broker gave no valid answer. `str()` says why."""


class WrongSecret(NoAnswer):
    """The broker has another password of the cluster than the operator."""


class GroupsPort(Protocol):
    """Sends requests about groups to brokers."""

    async def ask(self, process: Identity, secret: str, path: str, body: bytes) -> bytes:
        """Send a request to a broker, signed with the cluster's `secret`, and return the body of
        its answer. Raises `NoAnswer`."""


class HttpGroupsPort:
    """HTTP with kept connections. Close it, or use it as a context manager."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, process: Identity, secret: str, path: str, body: bytes) -> bytes:
        """Send a signed request to a broker's health port, and check the answer's signature and
        status. Raises `NoAnswer`."""
        import aiohttp  # noqa: PLC0415 - a standby sends no requests

        message = Message(
            method="POST",
            path=path,
            incarnation=process.incarnation,
            time_ms=int(self._clock.now().timestamp() * 1000),
            body=body,
        )
        headers = request_headers(secret, message)
        url = f"http://{_host(process.address)}:{ports.HEALTH}{path}"
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                self._opened().post(
                    url, data=body, headers=headers, allow_redirects=False
                ) as answer,
            ):
                received = await answer.content.read(MAX_ANSWER_BYTES + 1)
                while len(received) <= MAX_ANSWER_BYTES and not answer.content.at_eof():
                    received += await answer.content.read(MAX_ANSWER_BYTES + 1 - len(received))
                status = answer.status
                signature = answer.headers.get(SIGNATURE_HEADER, "")
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {ANSWER_WITHIN_S:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        if status == FORBIDDEN:
            raise WrongSecret("status 403: the broker does not accept the operator's signature")
        if len(received) > MAX_ANSWER_BYTES:
            raise NoAnswer(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        if not is_answer(secret, headers[SIGNATURE_HEADER], status, received, signature):
            raise NoAnswer(f"status {status}, and the answer has no valid signature")
        if status != 200:
            raise NoAnswer(f"status {status}")
        return received

    def _opened(self) -> "aiohttp.ClientSession":
        """The session for requests, opened with the first one."""
        if self._session is None:
            import aiohttp  # noqa: PLC0415

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


def _host(address: str) -> str:
    """The address as a URL has it: an IPv6 address in brackets."""
    return f"[{address}]" if ":" in address else address
