"""Opens a connection to another broker's internal listener: connect, agree on versions, log in.

With TLS, each end shows a certificate, and the host in that of the other broker is checked. With or
without it, each end proves that it knows the cluster's password (SCRAM): the peer belongs to this
cluster even if an address is in use by another process now.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.credentials import Credentials, CredentialSource
from chiplog_broker.security.tls import TlsFiles
from chiplog_wire.client.errors import NoCommonVersion, OpeningRefused
from chiplog_wire.client.opening import opening
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.framing import SOCKET_REQUEST_MAX_BYTES, UNAUTHENTICATED_MAX_BYTES
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    new_nonce,
)

MECHANISM: Final = Mechanism.SCRAM_SHA_512

# `Net.connect`, or a replacement in tests. Raises `OSError`.
Connect = Callable[[PeerConnection, str, int, ssl.SSLContext | None], Awaitable[PeerConnection]]


class Dialer:
    """Opens connections to the internal listeners of other brokers."""

    def __init__(
        self,
        connect: Connect,
        rng: Rng,
        credentials: CredentialSource,
        client_id: str,
        max_answer_bytes: int = SOCKET_REQUEST_MAX_BYTES,
        tls: TlsFiles | None = None,
    ) -> None:
        """Without `tls`, this broker has no certificate and connects in plain text only."""
        self._connect = connect
        self._rng = rng
        self._credentials = credentials
        self._client_id = client_id
        self._max_answer_bytes = max_answer_bytes
        self._tls = tls

    async def dial(
        self, host: str, port: int, timeout_s: float, *, has_tls: bool = False
    ) -> PeerConnection:
        """Connect and log in as a broker, within `timeout_s`. `has_tls` says whether the peer uses
        TLS with brokers that can. Raises `PeerError`."""
        tls = self._tls.current().context if has_tls and self._tls is not None else None
        try:
            async with asyncio.timeout(timeout_s):
                return await self._dial(host, port, tls, timeout_s)
        except TimeoutError:
            raise PeerTimedOut(
                f"{host}:{port} did not accept the login within {timeout_s:g} s"
            ) from None

    async def _dial(
        self, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float
    ) -> PeerConnection:
        """Connect with the newest password; if the peer refuses it, with the previous one: a peer
        may know a changed password earlier or later than this broker."""
        *newer, oldest = self._credentials.accepted()
        for user in newer:
            try:
                return await self._dial_as(user, host, port, tls, timeout_s)
            except PeerRefused:
                continue
        return await self._dial_as(oldest, host, port, tls, timeout_s)

    async def _dial_as(
        self,
        user: Credentials,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        timeout_s: float,
    ) -> PeerConnection:
        """Connect and log in as this user. Raises `PeerError`; then the connection is closed."""
        connection = PeerConnection(self._client_id, UNAUTHENTICATED_MAX_BYTES)
        try:
            await self._connect(connection, host, port, tls)
            await open_up(connection, lambda: self._scram(user), timeout_s)
        except OSError as error:
            raise PeerUnreachable(f"{host}:{port}: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        connection.allow(self._max_answer_bytes)
        return connection

    def _scram(self, user: Credentials) -> ScramClient:
        """The client's side of one SCRAM login, with a new nonce."""
        nonce = new_nonce(self._rng.token)
        return ScramClient(MECHANISM, user.username, user.password, nonce)


async def open_up(
    connection: PeerConnection, new_scram: Callable[[], ScramClient], timeout_s: float
) -> None:
    """Agree on versions and log in; `timeout_s` is for each answer. Raises `PeerRefused` if one end
    does not accept the other, and `PeerError` for other failures."""
    # A generator: it yields each request to send, and is sent the answer.
    steps, answer = opening(connection.wire, new_scram), None
    try:
        while True:
            request = steps.send(answer)
            answer = await connection.send_request(*request, timeout_s)
    except StopIteration:
        return
    except OpeningRefused as refused:
        raise refusal(refused) from refused
    except NoCommonVersion as none:
        raise PeerError(str(none)) from none
    except AuthenticationFailed as failed:
        raise PeerRefused(f"the peer does not belong to this cluster: {failed}") from failed


def refusal(refused: OpeningRefused) -> PeerError:
    """The error for a step of the login that the other broker answered with an error code."""
    if refused.key is ApiKey.SASL_HANDSHAKE:
        return PeerRefused(f"{MECHANISM.value}: {refused.code.name}")
    if refused.code is ErrorCode.sasl_authentication_failed:
        return PeerRefused("the peer does not accept this broker's user name or password")
    return PeerError(str(refused))
