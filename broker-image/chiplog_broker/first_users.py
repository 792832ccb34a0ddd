"""The users of `--add-scram`, in the notation of Kafka's `kafka-storage.sh format --add-scram`:

SCRAM-SHA-512=[name=alice,password=alice-secret]
SCRAM-SHA-256=[name=bob,iterations=8192,salt="base64",saltedpassword="base64"]
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.scram_store import CredentialChange
from chiplog_broker.security.users import SALT_BYTES
from chiplog_wire.scram import (
    ITERATIONS,
    Mechanism,
    ScramCredential,
    derived_keys,
    salted_password,
    saslprep,
)
from chiplog_wire.verifiers import why_not_stored

OPTION: Final = "--add-scram"
FORM: Final = "SCRAM-SHA-512=[name=alice,password=secret]"
NAMES: Final = frozenset({"name", "password", "salt", "iterations", "saltedpassword"})


def first_user(text: str, rng: Rng) -> CredentialChange:
    """The credential that one `--add-scram` names. Raises `CannotStart`, without the password."""
    try:
        return _parsed(text, rng)
    except (ValueError, Base64Error) as problem:
        raise CannotStart(f"{OPTION}: {problem}; write {FORM}") from None


def _parsed(text: str, rng: Rng) -> CredentialChange:
    """The credential. Raises `ValueError`."""
    match = re.fullmatch(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[(.*)\]", text.strip())
    if match is None:
        raise ValueError("it is not a mechanism with a user in brackets")
    mechanism, fields = Mechanism(match[1]), _fields(match[2])
    username = saslprep(fields.get("name", ""))
    iterations = int(fields.get("iterations", ITERATIONS))
    salt = b64decode(fields["salt"], validate=True) if "salt" in fields else rng.token(SALT_BYTES)
    if why := why_not_stored(iterations, salt):
        raise ValueError(why)
    if ("password" in fields) == ("saltedpassword" in fields):
        raise ValueError("give either password or saltedpassword")
    if "password" in fields:
        salted = salted_password(mechanism, fields["password"], salt, iterations)
    elif "salt" in fields:
        salted = b64decode(fields["saltedpassword"], validate=True)
    else:
        raise ValueError("saltedpassword needs its salt")
    keys = derived_keys(mechanism, salted)
    return CredentialChange(mechanism, username, ScramCredential(salt, iterations, (keys,)))


def _fields(text: str) -> dict[str, str]:
    """The `key=value` pairs between the brackets; a value may be in double quotes. Raises
    `ValueError`."""
    found: dict[str, str] = {}
    for entry in text.split(","):
        name, separator, value = entry.strip().partition("=")
        if not separator or name not in NAMES or name in found:
            raise ValueError(f"use each of {', '.join(sorted(NAMES))} once at most")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        found[name] = value
    return found
