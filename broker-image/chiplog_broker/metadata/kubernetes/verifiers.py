"""The verifiers of a user's password, as the operator writes them into a Secret.

An entry has the user's name, and this JSON; bytes are in base64:

    {"SCRAM-SHA-512": {"salt": …, "iterations": 4096, "storedKey": …, "serverKey": …}}
"""

import json

from chiplog_broker.security.scram_store import read_credential
from chiplog_wire.scram import Mechanism, ScramCredential


def read_verifiers(username: str, text: bytes) -> dict[tuple[Mechanism, str], ScramCredential]:
    """The verifiers of one user. Raises `ValueError`, `TypeError`, `LookupError`,
    `AttributeError`, `ArithmeticError` or `RecursionError` if they cannot be read."""
    return {
        (Mechanism(name), username): read_credential(stored)
        for name, stored in json.loads(text).items()
    }
