"""The users that may log in, as a store knows them now, and the connections that this ends.

A store replaces all of them at each change. A connection ends when the credential that its client
logged in with is not its user's any more, or when its principal was a user's that is deleted.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.plain import Derivations, PlainServer
from chiplog_broker.security.sasl import NOT_CURRENT, Attempt, Login, SaslSession
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.scram import (
    ITERATIONS,
    AuthenticationFailed,
    Mechanism,
    ScramCredential,
    ScramKeys,
    ScramServer,
    mac,
    new_nonce,
)

T = TypeVar("T")

SALT_BYTES: Final = 16
PLAIN: Final = "PLAIN"
PLAIN_PREFERS: Final = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256)
"""The credential that PLAIN compares with: the first one that the user has."""

Verifiers: TypeAlias = Mapping[tuple[Mechanism, str], ScramCredential]


class Shape(NamedTuple):
    """What everybody may learn of a credential."""

    salt_bytes: int
    iterations: int


USUAL: Final = Shape(SALT_BYTES, ITERATIONS)


class VerifierSource(Protocol):
    """Provides what passwords are verified with."""

    def find(self, mechanism: Mechanism, username: str) -> ScramCredential:
        """The credential of a user; for an unknown name one that no password matches, that takes as
        long, and whose salt is always the same."""

    def find_for_plain(self, username: str) -> tuple[Mechanism, ScramCredential]:
        """The credential that PLAIN compares with, as `find`."""

    def is_current(self, login: Login) -> bool:
        """Whether the credential of a login is still the user's."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a change of users ends."""

    deleted_principals: Set[str]
    is_current: Callable[[Login], bool]

    def ends(self, principal: str, login: Login | None) -> bool:
        """Whether a connection with this principal and login must be closed."""
        if login is not None and not self.is_current(login):
            return True
        return principal in self.deleted_principals


class Users:
    """The `VerifierSource` that a store fills."""

    def __init__(self, rng: Rng) -> None:
        # A secret of this process. It determines what is shown of names that do not exist.
        self._secret = rng.token(32)
        self._verifiers: Verifiers = {}
        self._shapes: dict[Mechanism, Sequence[Shape]] = {}
        self._plain_mechanisms: Sequence[Mechanism] = ()
        """With which credential PLAIN compares, for each user."""
        self._principals: Set[str] = frozenset()
        self._are_known = False
        self._listeners: list[Callable[[Change], None]] = []

    @property
    def verifiers(self) -> Verifiers:
        """All credentials."""
        return self._verifiers

    def on_change(self, changed: Callable[[Change], None]) -> None:
        """Have `changed` called after each change, in the same turn of the event loop."""
        self._listeners.append(changed)

    def replace(self, verifiers: Verifiers, principals: Set[str] = frozenset()) -> None:
        """From now on these are the users. `principals` are those of users that exist, however they
        authenticate; the store of a standalone broker does not know them."""
        self._are_known = True
        deleted = self._principals - principals
        self._verifiers, self._principals = dict(verifiers), frozenset(principals)
        self._shapes = {
            mechanism: [
                Shape(len(one.salt), one.iterations)
                for (of, _), one in self._verifiers.items()
                if of is mechanism
            ]
            for mechanism in Mechanism
        }
        preferred = PLAIN_PREFERS[0]
        self._plain_mechanisms = [
            mechanism
            for mechanism, name in self._verifiers
            if mechanism is preferred or (preferred, name) not in self._verifiers
        ]
        change = Change(deleted, self.is_current)
        for changed in self._listeners:
            changed(change)

    def find(self, mechanism: Mechanism, username: str) -> ScramCredential:
        """As in `VerifierSource`. Raises `ProtocolViolation` before the first `replace`."""
        self._check_known()
        known = self._verifiers.get((mechanism, username))
        return self._nobodys(mechanism, username) if known is None else known

    def find_for_plain(self, username: str) -> tuple[Mechanism, ScramCredential]:
        """As `find`."""
        self._check_known()
        for mechanism in PLAIN_PREFERS:
            known = self._verifiers.get((mechanism, username))
            if known is not None:
                return mechanism, known
        # Unknown users have the mechanisms of known ones: hashes of each take another time.
        digest = mac(PLAIN_PREFERS[0], self._secret, b"plain " + username.encode())
        mechanism = chosen(self._plain_mechanisms or PLAIN_PREFERS[:1], digest)
        return mechanism, self._nobodys(mechanism, username)

    def is_current(self, login: Login) -> bool:
        return self._verifiers.get((login.mechanism, login.username)) == login.credential

    def _check_known(self) -> None:
        """Raise `ProtocolViolation` before the first `replace`. The connection is closed then:
        after an answer that a login has failed, clients do not try again."""
        if not self._are_known:
            raise ProtocolViolation("the users of the cluster are not known yet")

    def _nobodys(self, mechanism: Mechanism, username: str) -> ScramCredential:
        """A credential that no password matches, in the shape of that of a user."""
        digest = mac(mechanism, self._secret, b"user " + username.encode())
        shape = chosen(self._shapes.get(mechanism) or (USUAL,), digest)
        salt = hashlib.shake_256(digest).digest(shape.salt_bytes)
        nobody = mac(mechanism, self._secret, b"nobody")
        return ScramCredential(salt, shape.iterations, (ScramKeys(nobody, nobody),))


def chosen(choices: Sequence[T], digest: bytes) -> T:
    """One of these, always the same one for a digest."""
    return choices[int.from_bytes(digest[-8:], "big") % len(choices)]


class UserLogins:
    """How users log in on a listener."""

    def __init__(
        self,
        source: VerifierSource,
        rng: Rng,
        derivations: Derivations,
        mechanisms: Sequence[str],
        session_s: float | None = None,
        others: Mapping[str, Callable[[], Attempt]] = MappingProxyType({}),
    ) -> None:
        """`mechanisms` are Kafka's names: those of `Mechanism`, and `PLAIN`. A login is valid for
        `session_s`; None: without end. `others` are further mechanisms, without passwords."""
        self._session_s = session_s
        self._source = source
        self._rng = rng
        self._derivations = derivations
        passwords: dict[str, Callable[[], Attempt]] = {
            name: self._plain if name == PLAIN else partial(self._scram, Mechanism(name))
            for name in mechanisms
        }
        self._mechanisms = {**passwords, **others}

    def session(self, deadline_s: float) -> SaslSession:
        """The login of a new connection, which must be complete by `deadline_s`."""
        return SaslSession(self._mechanisms, deadline_s, self._session_s)

    def _scram(self, mechanism: Mechanism) -> Attempt:
        found: list[ScramCredential] = []

        def find(username: str) -> ScramCredential:
            found.append(self._source.find(mechanism, username))
            return found[-1]

        exchange = ScramServer(mechanism, find, new_nonce(self._rng.token))
        return Attempt(
            exchange, lambda: self._current(Login(exchange.claimed_name, mechanism, found[-1]))
        )

    def _plain(self) -> Attempt:
        exchange = PlainServer(self._source.find_for_plain, self._derivations)
        return Attempt(
            exchange, lambda: self._current(Login(exchange.claimed_name, *exchange.proved))
        )

    def _current(self, login: Login) -> Login:
        """The login. Raises `AuthenticationFailed` if its credential was replaced meanwhile."""
        if not self._source.is_current(login):
            raise AuthenticationFailed(NOT_CURRENT)
        return login
