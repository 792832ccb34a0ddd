"""What happened to users, for the checkers.

A change counts for a broker from the moment at which its process gets it from the API server, or
finds it in the files that its kubelet has written. Rights are (operation, topic).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

Right = tuple[str, str]
"""An operation in the words of User objects, and a topic."""


class Intent(NamedTuple):
    """What a user is meant to be from this time on, by its User object."""

    at_s: float
    user: str
    exists: bool
    rights: frozenset[Right] = frozenset()
    password: str = ""
    """Its password; empty for a user with a certificate."""


class Listed(NamedTuple):
    """A broker's process has got an AccessList."""

    at_s: float
    process: str
    rights: dict[str, frozenset[Right]]
    """Principal -> what its ACLs allow."""


class Verifiable(NamedTuple):
    """A broker's process has got the verifiers of passwords."""

    at_s: float
    process: str
    passwords: dict[str, str]
    """User -> its password."""


class Trusted(NamedTuple):
    """A kubelet has written the CAs of clients into the pod of a broker."""

    at_s: float
    broker_id: int
    authorities: frozenset[str]
    """Their keys: a CA may have several certificates of one key."""


@dataclass(slots=True, kw_only=True)
class Login:
    """An attempt to log in, or to renew a login, at a broker's process."""

    at_s: float
    """When the result was known."""
    asked_s: float
    client: str
    user: str
    process: str
    broker_id: int
    is_accepted: bool
    password: str = ""
    """The password that was sent; empty for a certificate."""
    authority: str = ""
    """The key of the CA that has issued the certificate."""
    is_valid: bool = True
    """Whether the certificate was valid by the broker's clock: of an accepted one, before or after
    the login; of a refused one, before and after."""
    was_resumed: bool = False
    """Whether a saved session of TLS was resumed."""
    lifetime_s: float = inf
    """How long the login is valid, by the broker's answer."""
    resumed_s: float = -inf
    """When the broker's process ran again for the last time after a pause."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """An answer to a request of a user."""

    at_s: float
    asked_s: float
    client: str
    user: str
    principal: str
    process: str
    right: Right
    is_allowed: bool
    login_s: float
    """When the last login of the connection was complete."""
    expires_s: float = inf
    """When this login has to be renewed."""
    resumed_s: float = -inf
    """As in `Login`."""


class Calm(NamedTuple):
    """A time span without faults in which everything was well."""

    from_s: float
    to_s: float


class Kept(NamedTuple):
    """A connection that a broker should have closed, and has not."""

    at_s: float
    process: str
    client: str
    principal: str
    why: str


class LostCertificate(NamedTuple):
    """A user whose certificate is not accepted any more by what the operator did."""

    at_s: float
    user: str
    why: str


@dataclass(slots=True)
class UserHistory:
    """Users, their logins and their answers, each list in the order of time."""

    intents: list[Intent] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    verifiable: list[Verifiable] = field(default_factory=list)
    trusted: list[Trusted] = field(default_factory=list)
    logins: list[Login] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    lost_certificates: list[LostCertificate] = field(default_factory=list)
    calm: list[Calm] = field(default_factory=list)
    """When there were no faults, and everything was well."""
    unserved: list[str] = field(default_factory=list)
    """Users who should have got an answer in the end, and did not, each with the reason."""

    def digests(self) -> Iterator[tuple[object, ...]]:
        """What logins and answers have in common in all runs of a seed: keys and salts are other
        ones each time."""
        for login in self.logins:
            proof = login.password, bool(login.authority), login.was_resumed
            yield login.at_s, login.client, login.process, login.is_accepted, proof
        for answer in self.answers:
            yield answer.at_s, answer.client, answer.process, answer.right, answer.is_allowed
