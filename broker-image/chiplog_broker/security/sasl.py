"""The login of one connection as Kafka frames it: first the mechanism, then its tokens.

Without I/O. `server/gate.py` decides which requests are allowed in which state.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from chiplog_wire.scram import AuthenticationFailed, Mechanism, ScramCredential

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of clients on listeners without authentication."""
FAILURE_DELAY_S = 0.1
"""Kafka's `connection.failed.authentication.delay.ms`: it slows down the guessing of passwords."""
CHANGED: Final = "the client has logged in again as another user or by another mechanism"
NOT_CURRENT: Final = "the user's password was changed during the login"

Later: TypeAlias = Callable[[], Coroutine[Any, Any, bytes]]
"""Computes the answer to a token outside of the event loop. Raises `AuthenticationFailed`."""


class Exchange(Protocol):
    """The server's side of one mechanism."""

    @property
    def authenticated_as(self) -> str | None:
        """The user's name once the client has proved that it knows the password."""

    @property
    def claimed_name(self) -> str:
        """The name that the client has given, proved or not; empty before that."""

    def respond(self, token: bytes, /) -> bytes | Later:
        """The answer to the client's next token. Raises `AuthenticationFailed`."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a client has logged in: while the credential stays the user's, it stays logged in."""

    username: str
    mechanism: Mechanism
    credential: ScramCredential = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A mechanism that a client has chosen."""

    exchange: Exchange
    login: Callable[[], Login | None] = lambda: None
    """After the exchange: the login. None for processes of the cluster, who are no users, and for
    users with tokens, who have no credential here. Raises `AuthenticationFailed` if the credential
    is not valid any more."""
    valid_s: Callable[[], float | None] = lambda: None
    """After the exchange: how long what was proved is valid; None: without end."""


class Logins(Protocol):
    """How the clients of a listener log in."""

    def session(self, deadline_s: float) -> "SaslSession":
        """The login of a new connection, which must be complete by `deadline_s`."""


class SaslState(Enum):
    """The state of a login."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    CHECKING = "checking"
    """A token is being checked outside of the event loop; no other one may arrive meanwhile."""
    DONE = "done"
    FAILED = "failed"


class SaslSession:
    """The server's side of a login. It ends in DONE or FAILED, and must not be used after that."""

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], Attempt]],
        deadline_s: float,
        session_s: float | None = None,
    ) -> None:
        """`mechanisms` are those that a client may choose. After `session_s` it must log in again;
        None: it need not."""
        self._mechanisms = mechanisms
        self._attempt: Attempt
        self.deadline_s = deadline_s
        """The monotonic time by which the login must be complete."""
        self.session_s = session_s
        """After the login: the time after which the client must log in again; None: it need
        not."""
        self.renews: tuple[str, str] | None = None
        """The mechanism and the principal of the login that this one renews, which must be the
        same; None for the first one of a connection."""
        self.state = SaslState.HANDSHAKE
        self.has_bare_tokens = False
        """Whether tokens come without Kafka's headers, as after SaslHandshake 0."""
        self.mechanism = ""
        """The mechanism that the client has chosen."""
        self.login: Login | None = None
        """After the login of a user: what it depends on."""
        self.why_failed = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that a client may choose."""
        return tuple(self._mechanisms)

    @property
    def claimed_name(self) -> str:
        """The name that the client has given; empty before that."""
        return self._attempt.exchange.claimed_name if self.mechanism else ""

    @property
    def principal(self) -> str:
        """The principal of the client; only after the login has succeeded."""
        assert self.state is SaslState.DONE, "nobody has logged in"
        return f"User:{self._attempt.exchange.authenticated_as}"

    def handshake(self, name: str, *, bare_tokens: bool) -> bool:
        """The client has chosen the mechanism `name`; returns False if it is not supported, and the
        login has failed. `bare_tokens` sets `has_bare_tokens`."""
        assert self.state is SaslState.HANDSHAKE, "a second handshake"
        begin = self._mechanisms.get(name)
        if begin is None:
            self._fail("the mechanism is not supported")
            return False
        self._attempt = begin()
        self.mechanism = name
        self.has_bare_tokens = bare_tokens
        self.state = SaslState.TOKENS
        return True

    def respond(self, token: bytes) -> bytes | Later:
        """The token that answers the client's token, or what computes it. Raises
        `AuthenticationFailed`, also later; then the login has failed."""
        assert self.state is SaslState.TOKENS, "a token before the handshake, or after the end"
        try:
            answer = self._attempt.exchange.respond(token)
            if isinstance(answer, bytes):
                self._proceed()
                return answer
        except AuthenticationFailed as failed:
            self._fail(str(failed))
            raise
        self.state = SaslState.CHECKING
        check = answer

        async def checked() -> bytes:
            try:
                found = await check()
                self._proceed()
            except AuthenticationFailed as failed:
                self._fail(str(failed))
                raise
            return found

        return checked

    def _proceed(self) -> None:
        """A token was answered. Raises `AuthenticationFailed` if the credential that was proved is
        not valid any more."""
        self.state = SaslState.TOKENS
        if self._attempt.exchange.authenticated_as is not None:
            now = self.mechanism, f"User:{self._attempt.exchange.authenticated_as}"
            if self.renews not in (None, now):
                raise AuthenticationFailed(CHANGED)
            self.login = self._attempt.login()
            valid_s = self._attempt.valid_s()
            if valid_s is not None:
                self.session_s = valid_s if self.session_s is None else min(self.session_s, valid_s)
            self.state = SaslState.DONE

    def _fail(self, why: str) -> None:
        """End the login as failed; `why` is logged."""
        self.state = SaslState.FAILED
        self.why_failed = why
