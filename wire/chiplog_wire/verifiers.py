"""What is kept of a password, as JSON, and what can be kept (RFC 5802).

One credential has these fields; bytes are in base64:

    {"salt": …, "iterations": 4096, "storedKey": …, "serverKey": …}

A verifier of a user has those of each mechanism:

    {"SCRAM-SHA-512": {"salt": …, "iterations": 4096, "storedKey": …, "serverKey": …}}
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from chiplog_wire.scram import MIN_ITERATIONS, Mechanism, ScramCredential, ScramKeys

MAX_STORED_ITERATIONS: Final = 16_384
"""Kafka's limit, for the time that a login may take."""
MAX_SALT_BYTES: Final = 1024

UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""The exceptions for JSON that is no credential."""

OfUser: TypeAlias = Mapping[Mechanism, ScramCredential]


def why_not_stored(iterations: int, salt: bytes) -> str:
    """Why a credential with these may not be stored; empty if it may."""
    if iterations < MIN_ITERATIONS:
        return "Too few iterations"
    if iterations > MAX_STORED_ITERATIONS:
        return "Too many iterations"
    if not 0 < len(salt) <= MAX_SALT_BYTES:
        return f"The salt needs 1 to {MAX_SALT_BYTES} bytes"
    return ""


def credential_fields(credential: ScramCredential) -> dict[str, str | int]:
    """The fields of a credential with one pair of keys."""
    (keys,) = credential.keys
    return {
        "salt": _encoded(credential.salt),
        "iterations": credential.iterations,
        "storedKey": _encoded(keys.stored_key),
        "serverKey": _encoded(keys.server_key),
    }


def read_credential(fields: Mapping[str, Any]) -> ScramCredential:
    """The credential that has these fields. Raises one of `UNREADABLE`, also for one that may not
    be stored."""
    salt, stored_key, server_key = (
        b64decode(fields[field], validate=True) for field in ("salt", "storedKey", "serverKey")
    )
    iterations = fields["iterations"]
    if not isinstance(iterations, int):
        raise TypeError("the iterations are no number")
    if why := why_not_stored(iterations, salt):
        raise ValueError(why)
    if not stored_key or not server_key:
        raise ValueError("a key is empty")
    return ScramCredential(salt, iterations, (ScramKeys(stored_key, server_key),))


def verifier_text(credentials: OfUser) -> str:
    """The verifier of a user."""
    found = {mechanism.value: credential_fields(one) for mechanism, one in credentials.items()}
    return json.dumps(found, separators=(",", ":"))


def read_verifier(text: str | bytes) -> dict[Mechanism, ScramCredential]:
    """The credentials in the verifier of a user. Raises one of `UNREADABLE`."""
    return {Mechanism(name): read_credential(fields) for name, fields in json.loads(text).items()}


def _encoded(value: bytes) -> str:
    return b64encode(value).decode()
