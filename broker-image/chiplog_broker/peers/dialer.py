"""How a broker gets to another's internal listener: connect, agree on versions, log in.

Each end proves to the other that it knows the cluster's password (SCRAM), so what answers
afterwards belongs to this cluster, whoever has an address by now.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError, PeerRefused, PeerTimedOut, PeerUnreachable
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.credentials import Credentials, CredentialSource
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
# In every broker's range for good: it is asked before anything is agreed.
API_VERSIONS_VERSION: Final = 0
HANDSHAKE_VERSION: Final = 1

# `Net.connect`, or what a test puts in its place. Raises `OSError`.
Connect = Callable[[PeerConnection, str, int], Awaitable[PeerConnection]]


class Dialer:
    """Opens connections to the internal listeners of other brokers."""

    def __init__(
        self,
        connect: Connect,
        rng: Rng,
        credentials: CredentialSource,
        client_id: str,
        max_answer_bytes: int = SOCKET_REQUEST_MAX_BYTES,
    ) -> None:
        self._connect = connect
        self._rng = rng
        self._credentials = credentials
        self._client_id = client_id
        self._max_answer_bytes = max_answer_bytes

    async def dial(self, host: str, port: int, timeout_s: float) -> PeerConnection:
        """A connection that may ask for everything a broker may. Raises `PeerError`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._dial(host, port, timeout_s)
        except TimeoutError:
            raise PeerTimedOut(f"{host}:{port} let nobody in within {timeout_s:g} s") from None

    async def _dial(self, host: str, port: int, timeout_s: float) -> PeerConnection:
        """With each of the credentials: the peer may know of a new password later than we do."""
        *newer, oldest = self._credentials.accepted()
        for one in newer:
            try:
                return await self._dial_as(one, host, port, timeout_s)
            except PeerRefused:
                continue
        return await self._dial_as(oldest, host, port, timeout_s)

    async def _dial_as(
        self, user: Credentials, host: str, port: int, timeout_s: float
    ) -> PeerConnection:
        connection = PeerConnection(self._client_id, UNAUTHENTICATED_MAX_BYTES)
        try:
            await self._connect(connection, host, port)
            await learn_versions(connection, timeout_s)
            nonce = new_nonce(self._rng.token)
            client = ScramClient(MECHANISM, user.username, user.password, nonce)
            await log_in(connection, client, timeout_s)
        except OSError as error:
            raise PeerUnreachable(f"{host}:{port}: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        connection.allow(self._max_answer_bytes)
        return connection


async def learn_versions(connection: PeerConnection, timeout_s: float) -> None:
    """Ask what the peer speaks. Raises `PeerError`."""
    request = request_class(ApiKey.API_VERSIONS, API_VERSIONS_VERSION)()
    answer = await connection.ask(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, request, timeout_s)
    if answer.error_code:
        raise PeerError(f"ApiVersions was answered with {answer.error_code.name}")
    connection.versions = {
        one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
    }


async def log_in(connection: PeerConnection, client: ScramClient, timeout_s: float) -> None:
    """Raises `PeerError`, `PeerRefused` where either end does not convince the other."""
    request = request_class(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION)(mechanism=MECHANISM.value)
    answer = await connection.ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, request, timeout_s)
    if answer.error_code:
        raise PeerRefused(f"{MECHANISM.value}: {answer.error_code.name}")
    try:
        server_first = await exchange_token(connection, client.first(), timeout_s)
        server_final = await exchange_token(connection, client.final(server_first), timeout_s)
        client.verify(server_final)
    except AuthenticationFailed as failed:
        raise PeerRefused(f"the peer is not of this cluster: {failed}") from failed


async def exchange_token(connection: PeerConnection, token: bytes, timeout_s: float) -> bytes:
    """One step of the mechanism. Raises `PeerError`."""
    version = connection.common_version(ApiKey.SASL_AUTHENTICATE)
    request = request_class(ApiKey.SASL_AUTHENTICATE, version)(auth_bytes=token)
    answer = await connection.ask(ApiKey.SASL_AUTHENTICATE, version, request, timeout_s)
    if answer.error_code == ErrorCode.sasl_authentication_failed:
        raise PeerRefused("it does not know our name or password")
    if answer.error_code:
        raise PeerError(f"SaslAuthenticate was answered with {answer.error_code.name}")
    return bytes(answer.auth_bytes)


def request_class(key: ApiKey, version: int) -> Any:
    """kio's request; imported when the first connection is made and not at start-up."""
    from chiplog_wire.protocol.codec import schema  # noqa: PLC0415

    return schema.request_class(key, version)
