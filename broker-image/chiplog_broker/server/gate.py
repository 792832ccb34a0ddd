"""What stands before a listener that asks who its clients are.

Until a client has logged in, the gate is its connection's `Service`: nothing but the login
itself is answered, no frame may be large, and there is not much time. Then the gate puts
the listener's real service in its own place; requests after that do not pass it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.sasl import FAILURE_DELAY_S, SaslSession, SaslState
from chiplog_broker.server.connection import Answer, AnyRequest, Connection, Service, Started
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.requests import Request, RequestHeader
from chiplog_wire.protocol.writer import INT32
from chiplog_wire.scram import AuthenticationFailed

# A stranger may not occupy a connection for longer.
LOGIN_TIMEOUT_S: Final = 10.0

_ANSWERED: Final = {
    SaslState.HANDSHAKE: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    SaslState.TOKENS: (ApiKey.SASL_AUTHENTICATE,),
}
_BARE_TOKEN: Final = RequestHeader(APIS[ApiKey.SASL_AUTHENTICATE], 0, 0, None)

# Told who did not get in, and why.
Refused = Callable[[Peer, str], None]


class Gate:
    """The `Service` of one connection until its client has logged in."""

    def __init__(
        self,
        service: Service,
        session: SaslSession,
        clock: Clock,
        max_frame_bytes: int,
        refused: Refused,
    ) -> None:
        """`max_frame_bytes` is what a client may send once it is known."""
        self._service = service
        self._session = session
        self._clock = clock
        self._max_frame_bytes = max_frame_bytes
        self._refused = refused
        self._connection: Connection

    # -- Service

    def connected(self, connection: Connection) -> Peer | None:
        self._connection = connection
        peer = self._service.connected(connection)
        if peer is not None:
            peer.sasl = self._session
        return peer

    def unsent(self, change_bytes: int) -> None:
        self._service.unsent(change_bytes)

    def disconnected(self, connection: Connection, why: Exception | None) -> None:
        self._service.disconnected(connection, why)

    def start(self, request: AnyRequest, peer: Peer) -> Started:
        api = request.header.api if isinstance(request, Request) else APIS[ApiKey.API_VERSIONS]
        session = self._session
        if api.key not in _ANSWERED.get(session.state, ()):
            raise ProtocolViolation(f"{api.name} before the login")
        if isinstance(request, Request) and request.header is _BARE_TOKEN:
            started = self._bare_token(bytes(request.body))
        else:
            started = self._service.start(request, peer)
        if session.state is SaslState.DONE:
            self._open(peer)
        elif session.state is SaslState.FAILED:
            self._close(peer, started)
        elif session.has_bare_tokens:
            self._connection.parse = bare_token
        return started

    # -- what a login ends in

    def _open(self, peer: Peer) -> None:
        peer.principal = self._session.principal
        peer.is_internal = peer.listener.is_internal
        if peer.memory is not None:
            peer.memory.is_trusted = peer.is_internal
        peer.sasl = None
        self._connection.open(self._service, self._max_frame_bytes)

    def _close(self, peer: Peer, started: Started) -> None:
        """Say so, late, and hang up."""
        self._refused(peer, self._session.why_failed)
        assert isinstance(started, asyncio.Future), "a refusal is never quick"
        # Runs before the connection's own callback, which then closes behind the answer.
        started.add_done_callback(lambda _: self._connection.finish())

    def _bare_token(self, token: bytes) -> Started:
        """A token without headers, answered by one (KIP-43); a refusal has no words then."""
        try:
            answer = self._session.respond(token)
        except AuthenticationFailed:
            return asyncio.get_running_loop().create_task(self._nothing())
        return [INT32.pack(len(answer)) + answer]

    async def _nothing(self) -> Answer:
        await self._clock.sleep(FAILURE_DELAY_S)
        return []


def bare_token(frame: memoryview) -> AnyRequest:
    """A frame that is all token, as after SaslHandshake 0."""
    return Request(_BARE_TOKEN, frame)
