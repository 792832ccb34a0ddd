"""The verifiers of a user's password, as the operator writes them into a Secret.

An entry has the user's name, and this JSON; bytes are in base64:

    {"SCRAM-SHA-512": {"salt": …, "iterations": 4096, "storedKey": …, "serverKey": …}}
"""

import json
from base64 import b64decode

from chiplog_broker.security.users import MAX_ITERATIONS, MAX_SALT_BYTES
from chiplog_wire.scram import MIN_ITERATIONS, Mechanism, ScramCredential, ScramKeys


def read_verifiers(username: str, text: bytes) -> dict[tuple[Mechanism, str], ScramCredential]:
    """The verifiers of one user. Raises `ValueError`, `TypeError`, `LookupError`,
    `AttributeError`, `ArithmeticError` or `RecursionError` if they cannot be read."""
    found = {}
    for name, stored in json.loads(text).items():
        mechanism, iterations = Mechanism(name), int(stored["iterations"])
        salt, stored_key, server_key = (
            b64decode(stored[field], validate=True) for field in ("salt", "storedKey", "serverKey")
        )
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"{iterations} iterations")
        if not 0 < len(salt) <= MAX_SALT_BYTES or not stored_key or not server_key:
            raise ValueError("an empty field")
        keys = (ScramKeys(stored_key, server_key),)
        found[mechanism, username] = ScramCredential(salt, iterations, keys)
    return found
