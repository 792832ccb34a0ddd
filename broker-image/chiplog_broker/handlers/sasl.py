"""SaslHandshake and SaslAuthenticate: how a client authenticates.

They are served only during the login of a connection (see `server/gate.py`). After a login, and on
a listener without authentication, the answer is an error, as in Kafka. So there is no
re-authentication, and no session expires.
"""

from datetime import timedelta
from typing import Any

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.sasl import FAILURE_DELAY_S
from chiplog_broker.server.call import Call
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
            return authenticate_response(token=session.respond(call.message.auth_bytes))
        except AuthenticationFailed:
            return self._answer_later(
                authenticate_response(ErrorCode.sasl_authentication_failed, REFUSED)
            )

    async def _answer_later(self, answer: object) -> object:
        """Delay the answer to a failure, so that guessing passwords takes long."""
        await self._clock.sleep(FAILURE_DELAY_S)
        return answer


def authenticate_response(
    code: ErrorCode = ErrorCode.none, message: str | None = None, token: bytes = b""
) -> object:
    return answers(ApiKey.SASL_AUTHENTICATE).SaslAuthenticateResponse(
        error_code=code, error_message=message, auth_bytes=token, session_lifetime=UNLIMITED
    )
