"""The public keys of an issuer (RFC 7517), and which algorithms each of them may verify.

An algorithm belongs to a key and is never chosen by a token alone: a public RSA key used as an HMAC
secret would verify what anybody can sign. Symmetric keys, and keys that are weak or would take
long, are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

MAX_KEYS: Final = 100
MAX_KEY_ID_LENGTH: Final = 256
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192
MAX_RSA_EXPONENT: Final = 2**32
"""With a larger one, a signature could take the event loop for long."""
OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
OF_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384"}
ALGORITHMS: Final = frozenset((*OF_RSA, *OF_CURVES.values()))
"""All that are accepted."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key."""

    key: RSAPublicKey | EllipticCurvePublicKey
    algorithms: tuple[str, ...]


KeySet = Mapping[str, SigningKey]
"""The id of each key -> the key; the id of one that has none is empty."""


def read_key_set(document: Mapping[str, Any]) -> dict[str, SigningKey]:
    """The usable keys of a document. Raises `ValueError` if it is no set of keys, or too large."""
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise ValueError("the answer is not a JSON Web Key Set")
    if len(entries) > MAX_KEYS:
        raise ValueError(f"the set has {len(entries)} keys, more than {MAX_KEYS}")
    found: dict[str, SigningKey] = {}
    for entry in entries:
        key_id = entry.get("kid", "") if isinstance(entry, dict) else None
        if not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID_LENGTH:
            continue
        key = _key(entry)
        if key is not None:
            found.setdefault(key_id, key)
    return found


def _key(entry: Mapping[str, Any]) -> SigningKey | None:
    """One key; None if it cannot be used."""
    try:
        if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ("verify",)):
            return None
        key, possible = _parsed(entry)
    # An issuer may have keys of any kind. What the libraries raise for a broken one varies.
    except (PyJWTError, ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None
    algorithm = entry.get("alg")
    chosen = tuple(one for one in possible if algorithm in (None, one))
    return SigningKey(key, chosen) if chosen else None


def _parsed(
    entry: Mapping[str, Any],
) -> tuple[RSAPublicKey | EllipticCurvePublicKey, tuple[str, ...]]:
    """A key and the algorithms that are possible with it. Raises various errors."""
    if "d" in entry:
        raise ValueError("the key is a private one")
    match entry["kty"]:
        case "RSA":
            rsa = RSAAlgorithm.from_jwk(dict(entry))
            if not isinstance(rsa, RSAPublicKey):
                raise ValueError("the key is not a public one")
            if not MIN_RSA_BITS <= rsa.key_size <= MAX_RSA_BITS:
                raise ValueError("the key is too short or too long")
            if rsa.public_numbers().e > MAX_RSA_EXPONENT:
                raise ValueError("the exponent is too large")
            return rsa, OF_RSA
        case "EC":
            curve = ECAlgorithm.from_jwk(dict(entry))
            if not isinstance(curve, EllipticCurvePublicKey):
                raise ValueError("the key is not a public one")
            return curve, (OF_CURVES[curve.curve.name],)
    raise ValueError("the key is of another type")
