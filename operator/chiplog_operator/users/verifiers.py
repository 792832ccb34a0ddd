"""What brokers keep of a password: enough to check it, and not enough to log in with (RFC 5802)."""

import base64
import binascii
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Final

from chiplog_wire.scram import ITERATIONS, Mechanism, derived_keys, salted_password

MECHANISM: Final = Mechanism.SCRAM_SHA_512
SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Verifier:
    """The verifier of a password."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(
        cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS
    ) -> "Verifier":
        """The verifier of a password, with a random salt if none is given. This takes
        milliseconds. Raises `ValueError` for a password that Kafka's clients cannot send."""
        salt = salt or secrets.token_bytes(SALT_BYTES)
        keys = derived_keys(MECHANISM, salted_password(MECHANISM, password, salt, iterations))
        return cls(salt, keys.stored_key, keys.server_key, iterations)

    @classmethod
    def read(cls, text: str) -> "Verifier":
        """The verifier in an entry of the Secret. Raises `ValueError`."""
        try:
            found = json.loads(text)[MECHANISM.value]
            return cls(
                _decoded(found["salt"]),
                _decoded(found["storedKey"]),
                _decoded(found["serverKey"]),
                int(found["iterations"]),
            )
        except (LookupError, TypeError, ArithmeticError, RecursionError, binascii.Error) as error:
            raise ValueError("the entry is no verifier") from error

    def text(self) -> str:
        """The entry of the Secret."""
        found = {
            "salt": _encoded(self.salt),
            "storedKey": _encoded(self.stored_key),
            "serverKey": _encoded(self.server_key),
            "iterations": self.iterations,
        }
        return json.dumps({MECHANISM.value: found}, separators=(",", ":"))

    def fits(self, password: str) -> bool:
        """Whether it is the verifier of this password; takes milliseconds."""
        if self.iterations != ITERATIONS:
            return False
        wanted = Verifier.of(password, self.salt)
        return hmac.compare_digest(
            wanted.stored_key + wanted.server_key, self.stored_key + self.server_key
        )


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
