"""SaslHandshake and SaslAuthenticate: how a client authenticates.

They are served only during the login of a connection (see `server/gate.py`), which may be repeated
where logins expire (KIP-368). Otherwise the answer is an error, as in Kafka.
"""

import asyncio
from datetime import timedelta
from typing import Any

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.sasl import FAILURE_DELAY_S, Later, SaslSession, SaslState
from chiplog_broker.server.call import Answer, Call
from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import AuthenticationFailed

BARE_TOKENS_VERSION = 0
NOTHING_TO_DO = "this listener does not use SASL authentication"
# One text for all reasons: only the log says which it was.
REFUSED = "Authentication failed during authentication due to invalid credentials"
UNLIMITED = timedelta(0)


class SaslHandlers:
    """Advances the login of a connection; its state is in `peer.sasl`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def handshake(self, call: Call[Any]) -> object:
        """The client chooses a mechanism. After version 0 it sends the mechanism's tokens without
        request headers, later versions send them in SaslAuthenticate."""
        types = answers(ApiKey.SASL_HANDSHAKE)
        session = call.peer.sasl
        if session is None:
            return types.SaslHandshakeResponse(
                error_code=ErrorCode.illegal_sasl_state, mechanisms=()
            )
        bare_tokens = call.header.version == BARE_TOKENS_VERSION
        chosen = session.handshake(call.message.mechanism, bare_tokens=bare_tokens)
        code = ErrorCode.none if chosen else ErrorCode.unsupported_sasl_mechanism
        answer = types.SaslHandshakeResponse(error_code=code, mechanisms=session.mechanisms)
        return answer if chosen else self._answer_later(answer)

    def authenticate(self, call: Call[Any]) -> object:
        """Pass the client's token to the mechanism, and answer with the server's token."""
        session = call.peer.sasl
        if session is None:
            return authenticate_response(ErrorCode.illegal_sasl_state, NOTHING_TO_DO)
        try:
            answer = session.respond(call.message.auth_bytes)
        except AuthenticationFailed:
            return self._answer_later(refused())
        if isinstance(answer, bytes):
            return authenticate_response(token=answer, lifetime=lifetime_of(session))
        # A task of the connection: if that closes, the check is given up.
        return asyncio.get_running_loop().create_task(self._check(call, session, answer))

    async def _check(self, call: Call[Any], session: SaslSession, check: Later) -> Answer:
        """The encoded answer to a token that is checked in another thread."""
        try:
            token = await check()
            return call.encode(authenticate_response(token=token, lifetime=lifetime_of(session)))
        except AuthenticationFailed:
            return call.encode(await self._answer_later(refused()))

    async def _answer_later(self, answer: object) -> object:
        """Delay the answer to a failure, so that guessing passwords takes long."""
        await self._clock.sleep(FAILURE_DELAY_S)
        return answer


def lifetime_of(session: SaslSession) -> timedelta:
    """How long the login is valid, once it is complete."""
    if session.state is not SaslState.DONE or session.session_s is None:
        return UNLIMITED
    # Not 0, which would mean that it never ends.
    return timedelta(milliseconds=max(1, int(session.session_s * 1000)))


def refused() -> object:
    """The answer to a login that has failed, for whatever reason."""
    return authenticate_response(ErrorCode.sasl_authentication_failed, REFUSED)


def authenticate_response(
    code: ErrorCode = ErrorCode.none,
    message: str | None = None,
    token: bytes = b"",
    lifetime: timedelta = UNLIMITED,
) -> object:
    return answers(ApiKey.SASL_AUTHENTICATE).SaslAuthenticateResponse(
        error_code=code, error_message=message, auth_bytes=token, session_lifetime=lifetime
    )
