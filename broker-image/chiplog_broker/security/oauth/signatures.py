"""Reads tokens (RFC 7515, compact form) and verifies their signatures.

Nothing that a token says about its key is used except the key's id: `jku`, `x5u`, `x5c` and `jwk`
would let the holder of a token choose who has signed it (RFC 8725).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError

from chiplog_broker.security.oauth.jwk_set import ALGORITHMS, MAX_KEY_ID_LENGTH, SigningKey
from chiplog_core.token_claims import TokenRefused

MAX_TOKEN_BYTES: Final = 16 * 1024
MALFORMED: Final = "the token is malformed"
_COMPACT: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_JWS: Final = jwt.PyJWS(algorithms=sorted(ALGORITHMS))


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A token whose signature was not verified yet."""

    compact: bytes
    algorithm: str
    key_id: str
    """Empty if it names no key."""


def read_token(compact: bytes) -> UnverifiedToken:
    """Read the header of a token. Raises `TokenRefused`."""
    if len(compact) > MAX_TOKEN_BYTES:
        raise TokenRefused(f"the token has more than {MAX_TOKEN_BYTES} bytes")
    if _COMPACT.fullmatch(compact) is None:
        raise TokenRefused(MALFORMED)
    try:
        header = _JWS.get_unverified_header(compact)
    except (PyJWTError, ValueError, RecursionError) as error:
        raise TokenRefused(MALFORMED) from error
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("the token is signed by an algorithm that is not accepted")
    if len(key_id) > MAX_KEY_ID_LENGTH:
        raise TokenRefused(MALFORMED)
    if "crit" in header or header.get("b64", True) is not True:
        raise TokenRefused("the token uses extensions that are not supported")
    return UnverifiedToken(compact, algorithm, key_id)


def verified_claims(token: UnverifiedToken, key: SigningKey) -> Mapping[str, Any]:
    """The claims of a token that this key has signed. Raises `TokenRefused`."""
    if token.algorithm not in key.algorithms:
        raise TokenRefused("the token is signed by an algorithm that is not that of its key")
    try:
        payload = _JWS.decode(token.compact, key.key, algorithms=[token.algorithm])
        claims = json.loads(payload)
    except (PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise TokenRefused("the signature of the token is wrong, or it is malformed") from error
    if not isinstance(claims, dict):
        raise TokenRefused(MALFORMED)
    return claims
