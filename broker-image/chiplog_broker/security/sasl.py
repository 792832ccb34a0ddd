"""The login of one connection as Kafka frames it: first the mechanism, then its tokens.

Without I/O. `server/gate.py` decides which requests are allowed in which state.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from chiplog_broker.ports.rng import Rng
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramCredential,
    ScramServer,
    new_nonce,
)

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of clients on listeners without authentication."""
FAILURE_DELAY_S = 0.1
"""Kafka's `connection.failed.authentication.delay.ms`: it slows down the guessing of passwords."""

Find = Callable[[Mechanism, str], ScramCredential]


class SaslState(Enum):
    """The state of a login."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    DONE = "done"
    FAILED = "failed"


class SaslSession:
    """The server's side of a login. It ends in DONE or FAILED, and must not be used after that."""

    def __init__(
        self, mechanisms: Mapping[str, Mechanism], find: Find, rng: Rng, deadline_s: float
    ) -> None:
        self._mechanisms = mechanisms
        self._find = find
        self._rng = rng
        self._server: ScramServer
        self.deadline_s = deadline_s
        """The monotonic time by which the login must be complete."""
        self.state = SaslState.HANDSHAKE
        self.has_bare_tokens = False
        """Whether tokens come without Kafka's headers, as after SaslHandshake 0."""
        self.why_failed = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that a client may choose."""
        return tuple(self._mechanisms)

    @property
    def principal(self) -> str:
        """The principal of the client; only after the login has succeeded."""
        assert self.state is SaslState.DONE, "nobody has logged in"
        return f"User:{self._server.authenticated_as}"

    def handshake(self, name: str, *, bare_tokens: bool) -> bool:
        """The client has chosen the mechanism `name`; returns False if it is not supported, and the
        login has failed. `bare_tokens` sets `has_bare_tokens`."""
        assert self.state is SaslState.HANDSHAKE, "a second handshake"
        mechanism = self._mechanisms.get(name)
        if mechanism is None:
            self._fail("the mechanism is not supported")
            return False
        self._server = ScramServer(
            mechanism,
            lambda username: self._find(mechanism, username),
            new_nonce(self._rng.token),
        )
        self.has_bare_tokens = bare_tokens
        self.state = SaslState.TOKENS
        return True

    def respond(self, token: bytes) -> bytes:
        """The token that answers the client's token. Raises `AuthenticationFailed`; then the login
        has failed."""
        assert self.state is SaslState.TOKENS, "a token before the handshake, or after the end"
        try:
            answer = self._server.respond(token)
        except AuthenticationFailed as failed:
            self._fail(str(failed))
            raise
        if self._server.authenticated_as is not None:
            self.state = SaslState.DONE
        return answer

    def _fail(self, why: str) -> None:
        """End the login as failed; `why` is logged."""
        self.state = SaslState.FAILED
        self.why_failed = why
