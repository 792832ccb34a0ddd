"""The name and password by which the processes of a cluster authenticate to each other.

How a broker on Kubernetes uses it:

    credentials = FileCredentials(Path("/etc/chiplog-internal"), clock)  # raises CannotStart
    keyring = Keyring(credentials, rng)
    listeners.append(internal_listener(advertised_host, keyring))  # metadata/listeners.py
    dialer = Dialer(SystemNet().connect, rng, credentials, f"broker-{broker_id}")  # peers/dialer.py

Nothing has to be started or stopped. The files are read when a client logs in. After a change of
the password the previous one is accepted for a while, too: the kubelet updates a mounted Secret in
one pod after the other, and the brokers must be able to connect in the meantime.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.sasl import Attempt, SaslSession
from chiplog_wire.scram import (
    ITERATIONS,
    Mechanism,
    ScramCredential,
    ScramKeys,
    ScramServer,
    derived_keys,
    mac,
    new_nonce,
    salted_password,
    saslprep,
)

logger = logging.getLogger(__name__)

# The files are read at most once in this time, however many clients log in.
REREAD_AFTER_S: Final = 1.0
# The kubelet takes up to two minutes to bring a Secret to a pod; a rollout may take longer.
GRACE_S: Final = 600.0
SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user of the internal listener."""

    username: str
    password: str = field(repr=False)


class CredentialSource(Protocol):
    """Provides credentials."""

    def accepted(self) -> Sequence[Credentials]:
        """The credentials that are valid now, the newest first; never empty."""


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credentials: Credentials) -> None:
        self._accepted = (credentials,)

    def accepted(self) -> Sequence[Credentials]:
        return self._accepted


class FileCredentials:
    """A mounted Secret: the files `username` and `password` in one directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Read the files. Raises `CannotStart` if that fails."""
        self._directory = directory
        self._clock = clock
        try:
            self._newest = read_credentials(directory)
        except (OSError, ValueError) as problem:
            raise CannotStart(
                f"{directory} has no credentials ({problem}): mount a Secret there with the keys "
                "username and password"
            ) from problem
        self._read_s = clock.monotonic_s()
        self._previous: Credentials | None = None
        self._changed_s = self._read_s
        self._unreadable = False

    def accepted(self) -> Sequence[Credentials]:
        """The present content of the files, and their previous content for a while."""
        now_s = self._clock.monotonic_s()
        if now_s - self._read_s >= REREAD_AFTER_S:
            self._read_s = now_s
            self._reread(now_s)
        if self._previous is None or now_s - self._changed_s >= GRACE_S:
            self._previous = None
            return (self._newest,)
        return (self._newest, self._previous)

    def _reread(self, now_s: float) -> None:
        """Read the files again. If they have changed, `GRACE_S` of the previous ones begins."""
        try:
            found = read_credentials(self._directory)
        except (OSError, ValueError) as problem:
            # The credentials in memory stay valid: a broken mount must not disconnect the brokers.
            if not self._unreadable:
                logger.warning("credentials_unreadable", extra={"reason": str(problem)})
            self._unreadable = True
            return
        self._unreadable = False
        if found != self._newest:
            self._previous, self._newest, self._changed_s = self._newest, found, now_s
            logger.info("credentials_changed", extra={"user": found.username})


def read_credentials(directory: Path) -> Credentials:
    """The content of the files `username` and `password`, without a line end after it. Raises
    `OSError` or `ValueError`."""
    username, password = (
        (directory / name).read_text("ascii").rstrip("\r\n") for name in ("username", "password")
    )
    return Credentials(saslprep(username), saslprep(password))


class Keyring:
    """The keys with which a listener verifies logins; keys are derived once for each password."""

    def __init__(
        self,
        source: CredentialSource,
        rng: Rng,
        mechanisms: Sequence[Mechanism] = (Mechanism.SCRAM_SHA_512,),
    ) -> None:
        self._source = source
        self._rng = rng
        self._mechanisms = {mechanism.value: mechanism for mechanism in mechanisms}
        # A secret of this process. It determines the salt of each name, also of names that do not
        # exist, and the same salt for both passwords of a user whose password has just changed.
        self._secret = rng.token(32)
        self._keys: dict[tuple[Mechanism, Credentials], ScramKeys] = {}

    def session(self, deadline_s: float) -> SaslSession:
        """The login of a new connection, which must be complete by `deadline_s`."""
        return SaslSession(
            {name: partial(self._attempt, one) for name, one in self._mechanisms.items()},
            deadline_s,
        )

    def _attempt(self, mechanism: Mechanism) -> Attempt:
        find, nonce = partial(self.find, mechanism), new_nonce(self._rng.token)
        return Attempt(ScramServer(mechanism, find, nonce))

    def find(self, mechanism: Mechanism, username: str) -> ScramCredential:
        """The credential that verifies the password of `username`: with the keys of all passwords
        that are accepted now, or for an unknown name with keys that no password matches."""
        secret, name = self._secret, username.encode()
        salt = mac(mechanism, secret, b"salt " + name)[:SALT_BYTES]
        accepted = self._source.accepted()
        # Drop the keys of passwords that are not accepted any more.
        self._keys = {
            (known_mechanism, user): keys
            for (known_mechanism, user), keys in self._keys.items()
            if user in accepted
        }
        keys = [
            self._keys_of(mechanism, user, salt) for user in accepted if user.username == username
        ]
        return ScramCredential(salt, ITERATIONS, keys or [self._nobodys_keys(mechanism)])

    def _nobodys_keys(self, mechanism: Mechanism) -> ScramKeys:
        """Keys that match no password, so that logins of unknown users take as long as others."""
        nobody = mac(mechanism, self._secret, b"nobody")
        return ScramKeys(nobody, nobody)

    def _keys_of(self, mechanism: Mechanism, user: Credentials, salt: bytes) -> ScramKeys:
        """The keys of this user, derived at the first login: the derivation is slow on purpose."""
        cache_key = mechanism, user
        if cache_key not in self._keys:
            salted = salted_password(mechanism, user.password, salt, ITERATIONS)
            self._keys[cache_key] = derived_keys(mechanism, salted)
        return self._keys[cache_key]
