"""One signed question to one process of a broker: with TLS over a port of its own, or over its
health port if the broker has no certificate."""

import asyncio
import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from chiplog_core.model.group_exchange import MAX_ANSWER_BYTES
from chiplog_core.naming import ports
from chiplog_core.naming.peers import broker_host
from chiplog_core.observed.processes import Identity
from chiplog_core.signature import (
    SIGNATURE_HEADER,
    Message,
    is_answer,
    request_headers,
)
from chiplog_operator.caches import ClusterKey
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the operator identifies itself to the brokers of a cluster, and they to it."""

    cluster: ClusterKey
    secret: str = field(repr=False)
    """The cluster's password, with which requests and answers are signed."""
    tls: ssl.SSLContext | None = None
    """With the operator's certificate; None if it has none for this cluster."""


class GroupsPort(Protocol):
    """Sends requests about groups to brokers."""

    async def ask(self, process: Identity, access: Access, path: str, body: bytes) -> bytes:
        """Send a signed request to a broker, and return the body of its answer. Raises
        `NoAnswer`."""


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

    async def ask(self, process: Identity, access: Access, path: str, body: bytes) -> bytes:
        """Send a signed request to a broker, and check the answer's signature and status. Raises
        `NoAnswer`."""
        import aiohttp  # noqa: PLC0415 - a standby sends no requests

        message = Message(
            method="POST",
            path=path,
            incarnation=process.incarnation,
            time_ms=int(self._clock.now().timestamp() * 1000),
            body=body,
        )
        headers = request_headers(access.secret, message)
        address, tls = _host(process.address), None
        url = f"http://{address}:{ports.HEALTH}{path}"
        if process.uses_tls:
            # Never in plain text then, not even if this fails.
            url, tls = f"https://{address}:{ports.OPERATOR}{path}", access.tls
            if tls is None:
                raise NoAnswer("the operator has no certificate of the cluster CA yet")
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                self._opened().post(
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    ssl=True if tls is None else tls,
                    server_hostname=None
                    if tls is None
                    else broker_host(
                        access.cluster.name, access.cluster.namespace, process.broker_id
                    ),
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
        if not is_answer(access.secret, headers[SIGNATURE_HEADER], status, received, signature):
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
