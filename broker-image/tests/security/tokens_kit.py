"""An issuer of tokens, and a clock."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from chiplog_broker.security.oauth.signing_keys import Published

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
NOW_S = 1_800_000_000.0
BOUND = {"namespace": "shop", "serviceaccount": {"name": "orders", "uid": "1"}}
"""What the API server adds to the token of a ServiceAccount."""
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def rsa_key(name: str, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """A key; the same one for the same name."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key(name: str, curve: Any = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def jwk(key: PrivateKey, key_id: str | None = "one", **more: Any) -> dict[str, Any]:
    """The public key as an entry of a key set."""
    if isinstance(key, rsa.RSAPrivateKey):
        entry = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        entry = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    entry.pop("key_ops", None)
    return {**entry, **({} if key_id is None else {"kid": key_id}), **more}


def key_set(*entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"keys": list(entries)}


def pem(key: PrivateKey) -> bytes:
    """The public key, which everybody knows."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def claims(**more: Any) -> dict[str, Any]:
    """Claims of a valid token; None removes one."""
    found = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "exp": int(NOW_S) + 600,
        "iat": int(NOW_S),
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(
    key: PrivateKey,
    algorithm: str = "RS256",
    key_id: str | None = "one",
    header: Mapping[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """A token; `more` are claims."""
    headers = {**({} if key_id is None else {"kid": key_id}), **(header or {})}
    return jwt.encode(claims(**more), key, algorithm=algorithm, headers=headers).encode()


def encoded(value: object) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=")


def by_hmac(secret: bytes, **header: Any) -> bytes:
    """A token that is signed with a secret, as libraries refuse to do it with a public key."""
    signing = encoded({"alg": "HS256", "kid": "one", **header}) + b"." + encoded(claims())
    return signing + b"." + encoded(hmac.digest(secret, signing, hashlib.sha256))


def unsigned(algorithm: str = "none") -> bytes:
    return encoded({"alg": algorithm, "kid": "one"}) + b"." + encoded(claims()) + b".AA"


def first(token: bytes, identity: str = "", extensions: str = "") -> bytes:
    """A client's first message."""
    who = f"a={identity}" if identity else ""
    return f"n,{who},\x01auth=Bearer ".encode() + token + f"\x01{extensions}\x01".encode()


class Issuer:
    """A `KeySource` that publishes what a test says."""

    def __init__(self, *entries: Mapping[str, Any]) -> None:
        self.published = Published(ISSUER, key_set(*entries))
        self.error: Exception | None = None
        self.fetches = 0

    def publish(self, *entries: Mapping[str, Any]) -> None:
        self.published = Published(ISSUER, key_set(*entries))

    async def fetch(self) -> Published:
        self.fetches += 1
        if self.error is not None:
            raise self.error
        return self.published
