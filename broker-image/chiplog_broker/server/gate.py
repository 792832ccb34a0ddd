"""Handles the login of a connection, on listeners that require one.

The gate is the `Service` of a connection until its client has logged in. It answers only the
requests of a login, and limits the size of frames and the time. After the login it installs the
listener's real service, so later requests do not pass through the gate. If logins expire (KIP-368),
a `TimedService` checks the time of later requests, and has the client log in again through a gate.
"""

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.sasl import FAILURE_DELAY_S, Later, SaslSession, SaslState
from chiplog_broker.server.connection import Answer, AnyRequest, Connection, Service, Started
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.requests import Request, RequestHeader, parse_request
from chiplog_wire.protocol.writer import INT32
from chiplog_wire.scram import AuthenticationFailed

# The time limit of a login.
LOGIN_TIMEOUT_S: Final = 10.0

# The requests that are answered in each state of a login.
_ANSWERED: Final = {
    SaslState.HANDSHAKE: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    SaslState.TOKENS: (ApiKey.SASL_AUTHENTICATE,),
}
# Requests of a login other than a token are small. Text may take four times as much memory as in
# its frame, which has up to `UNAUTHENTICATED_MAX_BYTES` for a token.
MAX_REQUEST_BYTES: Final = 4 * 1024
MAX_CLIENT_ID_BYTES: Final = 1024
# API, (version, correlation id), length of the client id
_KEY_AND_LENGTH: Final = struct.Struct(">h6xh")

# The header given to a token that arrives without one (SaslHandshake 0).
_BARE_TOKEN: Final = RequestHeader(APIS[ApiKey.SASL_AUTHENTICATE], 0, 0, None)

EXPIRED: Final = "the login has expired, and the client has not logged in again"

# Called with the peer whose login failed, and its login.
Refused = Callable[[Peer, SaslSession], None]


class Gate:
    """The `Service` of one connection until its client has logged in."""

    def __init__(
        self,
        service: Service,
        new_session: Callable[[], SaslSession],
        clock: Clock,
        max_frame_bytes: int,
        refused: Refused,
    ) -> None:
        """`service` handles the connection after the login, and `max_frame_bytes` is its limit
        then. `new_session` begins a login. `refused` is called if the login fails."""
        self._service = service
        self._new_session = new_session
        self._session = new_session()
        self._clock = clock
        self._max_frame_bytes = max_frame_bytes
        self._refused = refused
        self._connection: Connection

    # -- Service

    def connected(self, connection: Connection) -> Peer | None:
        """Register a new connection, whose login begins; None if the service refuses it."""
        self._connection = connection
        connection.parse = login_request
        peer = self._service.connected(connection)
        if peer is not None:
            peer.sasl = self._session
        return peer

    def unsent(self, change_bytes: int) -> None:
        self._service.unsent(change_bytes)

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        self._service.disconnected(connection, why)

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        """Start a request of the login. Raises `ProtocolViolation` for any other request."""
        api = request.header.api if isinstance(request, Request) else APIS[ApiKey.API_VERSIONS]
        session = self._session
        if api.key not in _ANSWERED.get(session.state, ()):
            raise ProtocolViolation(f"{api.name} was sent before the login was complete")
        if isinstance(request, Request) and request.header is _BARE_TOKEN:
            started = self._bare_token(bytes(request.body))
        else:
            started = self._service.start(request, peer)
        if session.state is SaslState.DONE:
            self._open(peer)
        elif session.state is SaslState.FAILED:
            self._close(peer, started)
        elif session.state is SaslState.CHECKING:
            assert isinstance(started, asyncio.Future), "the result of a check comes later"
            # This callback runs before the connection's own one, as in `_close`.
            started.add_done_callback(partial(self._checked, peer))
        elif session.has_bare_tokens:
            self._connection.parse = bare_token
        return started

    def renew(self, request: AnyRequest, peer: Peer) -> Started:
        """The client logs in again on its open connection; this is its first request."""
        before, self._session = self._session, self._new_session()
        self._session.renews = before.mechanism, peer.principal
        peer.sasl = self._session
        self._connection.open(self, self._max_frame_bytes)
        return self.start(request, peer)

    # -- the end of a login

    def _checked(self, peer: Peer, answer: asyncio.Future[Answer]) -> None:
        """A token was checked outside of the event loop's turn, and its answer is ready."""
        if answer.cancelled() or answer.exception() is not None:
            return  # the connection is closed, or is being closed
        if self._session.state is SaslState.DONE:
            self._open(peer)
        elif self._session.state is SaslState.FAILED:
            self._refused(peer, self._session)
            self._connection.finish()

    def _open(self, peer: Peer) -> None:
        """The login succeeded: from now on the listener's service handles the connection."""
        peer.principal = self._session.principal
        peer.login = self._session.login
        peer.is_internal = peer.listener.is_internal
        if peer.memory is not None:
            peer.memory.is_trusted = peer.is_internal
        peer.sasl = None
        service = self._service
        if self._session.session_s is not None:
            expires_s = self._clock.monotonic_s() + self._session.session_s
            service = TimedService(self._service, self, expires_s, self._clock)
        self._connection.open(service, self._max_frame_bytes)

    def _close(self, peer: Peer, started: Started) -> None:
        """Close the connection of a failed login, after its delayed answer."""
        self._refused(peer, self._session)
        assert isinstance(started, asyncio.Future), "the answer to a failed login is delayed"
        # This callback runs before the connection's own one. So `finish` is called first; then the
        # answer is sent, and the connection closes itself.
        started.add_done_callback(lambda _: self._connection.finish())

    def _bare_token(self, token: bytes) -> Started:
        """Answer a token without a header by another such token (KIP-43).

        There is no such answer to a wrong token: the connection closes after the delay.
        """
        try:
            answer = self._session.respond(token)
        except AuthenticationFailed:
            return asyncio.get_running_loop().create_task(self._no_answer())
        if isinstance(answer, bytes):
            return [bare(answer)]
        return asyncio.get_running_loop().create_task(self._answer_to(answer))

    async def _answer_to(self, check: Later) -> Answer:
        """The answer to a token without a header that is checked in another thread."""
        try:
            return [bare(await check())]
        except AuthenticationFailed:
            return await self._no_answer()

    async def _no_answer(self) -> Answer:
        """An empty answer after the delay that makes guessing passwords slow."""
        await self._clock.sleep(FAILURE_DELAY_S)
        return []


class TimedService:
    """The `Service` of a connection whose login expires."""

    def __init__(self, service: Service, gate: Gate, expires_s: float, clock: Clock) -> None:
        self._service = service
        self._gate = gate
        self._expires_s = expires_s
        self._clock = clock
        self.connected = service.connected
        self.unsent = service.unsent
        self.disconnected = service.disconnected

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        """Start a request. Raises `ProtocolViolation` if the login has expired: except for another
        login, the connection is not served any more."""
        if isinstance(request, Request) and request.header.api_key is ApiKey.SASL_HANDSHAKE:
            return self._gate.renew(request, peer)
        if self._clock.monotonic_s() > self._expires_s:
            raise ProtocolViolation(EXPIRED)
        return self._service.start(request, peer)


def login_request(frame: memoryview) -> AnyRequest:
    """Parse a request of a client that has not logged in. Raises `ProtocolViolation`, also for one
    that is larger than those of a login are."""
    if len(frame) >= _KEY_AND_LENGTH.size:
        key, client_id_bytes = _KEY_AND_LENGTH.unpack_from(frame)
        is_large = len(frame) > MAX_REQUEST_BYTES and key != ApiKey.SASL_AUTHENTICATE
        if is_large or client_id_bytes > MAX_CLIENT_ID_BYTES:
            raise ProtocolViolation(
                f"a request of {len(frame)} bytes, with a client id of {client_id_bytes}, was sent "
                "before the login was complete"
            )
    return parse_request(frame)


def bare(token: bytes) -> bytes:
    """A token as a frame of its own."""
    return INT32.pack(len(token)) + token


def bare_token(frame: memoryview) -> AnyRequest:
    """Parse a frame that is a token without a header, as after SaslHandshake 0."""
    return Request(_BARE_TOKEN, frame)
