"""OAUTHBEARER (RFC 7628): the client sends a token, and the server verifies it.

A wrong token is answered by a message that says so, which the client answers by one byte; then the
login fails. That is what Kafka does, and what its clients wait for.
"""

import re
from collections.abc import Callable
from typing import Final

from chiplog_broker.security.oauth.signatures import (
    MAX_TOKEN_BYTES,
    read_token,
    verified_claims,
)
from chiplog_broker.security.oauth.signing_keys import SigningKeys
from chiplog_broker.security.sasl import Attempt, Later
from chiplog_core.token_claims import TokenHolder, TokenRefused, TokenRules, holder
from chiplog_wire.scram import AuthenticationFailed

MALFORMED: Final = "a message is malformed"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
MAX_MESSAGE_BYTES: Final = MAX_TOKEN_BYTES + 4 * 1024
"""A token with extensions, which are ignored."""

# The identity to act as, then key=value pairs; `auth` is one of them.
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<identity>(?:[^\x00=,]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x00\x01]*\x01)*)\x01"
)
_AUTH: Final = re.compile(rb"auth=bearer +(?P<token>[^ ]+) *", re.IGNORECASE)


class TokenVerifier:
    """Verifies the tokens of one listener."""

    def __init__(
        self, keys: SigningKeys, rules: Callable[[str], TokenRules], now_s: Callable[[], float]
    ) -> None:
        """`rules` are those for an issuer; `now_s` are seconds since the epoch."""
        self._keys = keys
        self._rules = rules
        self._now_s = now_s

    async def holder(self, compact: bytes) -> TokenHolder:
        """Who a token is for. Raises `TokenRefused`, and `ProtocolViolation` while the keys of the
        issuer are not known."""
        token = read_token(compact)
        issuer, key = await self._keys.find(token.key_id)
        # One signature takes the processor for less than a millisecond, for any key of a key set.
        claims = verified_claims(token, key)
        return holder(claims, self._rules(issuer), self._now_s())

    def attempt(self) -> Attempt:
        """A login that begins."""
        exchange = BearerServer(self)
        return Attempt(exchange, valid_s=lambda: exchange.valid_s)


class BearerServer:
    """The server's side of one login."""

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self._refused = ""
        self.claimed_name = ""
        self.authenticated_as: str | None = None
        self.valid_s: float | None = None
        """How long the token is valid, from its verification on."""

    def respond(self, token: bytes) -> Later:
        """Verify the token in the client's message. Raises `AuthenticationFailed`."""
        if self._refused:
            # The client has received why. Whatever it says now, the login has failed.
            raise AuthenticationFailed(self._refused)
        identity, compact = first_message(token)

        async def verify() -> bytes:
            try:
                found = await self._verifier.holder(compact)
            except TokenRefused as refused:
                self._refused = str(refused)
                return INVALID_TOKEN
            if identity not in ("", found.username):
                raise AuthenticationFailed("the client requests to act as another user")
            self.claimed_name = self.authenticated_as = found.username
            self.valid_s = found.valid_s
            return b""

        return verify


def first_message(message: bytes) -> tuple[str, bytes]:
    """The identity to act as, which is empty if the client names none, and the token in a client's
    first message. Raises `AuthenticationFailed`."""
    match = _FIRST.fullmatch(message) if len(message) <= MAX_MESSAGE_BYTES else None
    if match is None:
        raise AuthenticationFailed(MALFORMED)
    found = [_AUTH.fullmatch(pair) for pair in match["pairs"].split(b"\x01")]
    tokens = [one["token"] for one in found if one is not None]
    if len(tokens) != 1:
        raise AuthenticationFailed(MALFORMED)
    try:
        identity = (match["identity"] or b"").decode()
    except UnicodeDecodeError as error:
        raise AuthenticationFailed(MALFORMED) from error
    return identity.replace("=2C", ",").replace("=3D", "="), tokens[0]
