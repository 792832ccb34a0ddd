"""PLAIN (RFC 4616): the client sends its password, which is compared with a SCRAM credential.

The derivation of keys from a password takes milliseconds on purpose, up to some tens. It runs in
threads of its own, so that it holds up neither the event loop nor the threads for files.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from chiplog_broker.security.sasl import Later
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramCredential,
    derived_keys,
)

MAX_AT_ONCE: Final = 2
"""Derivations that run at once. Further ones wait; a closed connection gives up its place."""
MAX_TOKEN_BYTES: Final = 4096
WRONG: Final = "unknown user or wrong password"

Find = Callable[[str], tuple[Mechanism, ScramCredential]]


class Derivations:
    """Derives keys from passwords, a few at once."""

    def __init__(self) -> None:
        # Its threads start with the first derivation.
        self._threads = ThreadPoolExecutor(MAX_AT_ONCE, "logins")

    async def matches(
        self, mechanism: Mechanism, password: bytes, credential: ScramCredential
    ) -> bool:
        """Whether the password is that of the credential."""
        salted = await asyncio.get_running_loop().run_in_executor(
            self._threads,
            hashlib.pbkdf2_hmac,
            mechanism.hash_name,
            password,
            credential.salt,
            credential.iterations,
        )
        derived = derived_keys(mechanism, salted)
        return any(
            hmac.compare_digest(derived.stored_key, keys.stored_key) for keys in credential.keys
        )

    def close(self) -> None:
        """End the threads after what they are deriving now."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class PlainServer:
    """The server's side of one login: one token in, an empty one out."""

    def __init__(self, find: Find, derivations: Derivations) -> None:
        """`find` must return a credential for every name: otherwise clients learn by the time that
        an answer takes which names exist."""
        self._find = find
        self._derivations = derivations
        self.claimed_name = ""
        self.authenticated_as: str | None = None
        self.proved: tuple[Mechanism, ScramCredential]
        """The credential whose password the client has sent."""

    def respond(self, token: bytes) -> Later:
        """Check the client's name and password. Raises `AuthenticationFailed`."""
        name, password = name_and_password(token)
        self.claimed_name = name
        mechanism, credential = self._find(name)

        async def check() -> bytes:
            if not await self._derivations.matches(mechanism, password, credential):
                raise AuthenticationFailed(WRONG)
            self.proved = mechanism, credential
            self.authenticated_as = name
            return b""

        return check


def name_and_password(token: bytes) -> tuple[str, bytes]:
    """The name and the password in a token: an identity to act as, the name and the password, with
    a zero byte between them. Raises `AuthenticationFailed`."""
    parts = token.split(b"\0") if len(token) <= MAX_TOKEN_BYTES else []
    if len(parts) != 3:
        raise AuthenticationFailed("a message is malformed")
    identity, name, password = parts
    if not name or not password:
        raise AuthenticationFailed("the name or the password is empty")
    if identity not in (b"", name):
        raise AuthenticationFailed("the client requests to act as another user")
    try:
        return name.decode(), password
    except UnicodeDecodeError as error:
        raise AuthenticationFailed("a name is malformed") from error
