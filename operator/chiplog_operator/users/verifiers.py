"""What brokers keep of a password: enough to check it, and not enough to log in with (RFC 5802)."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from chiplog_wire.scram import (
    ITERATIONS,
    Mechanism,
    ScramCredential,
    derived_keys,
    salted_password,
)
from chiplog_wire.verifiers import UNREADABLE, read_verifier, verifier_text

MECHANISM: Final = Mechanism.SCRAM_SHA_512
SALT_BYTES: Final = 24
KEY_BYTES: Final = hashlib.new(MECHANISM.hash_name).digest_size
MAX_SALT_BYTES: Final = 64
"""As long as brokers accept: the verifiers of all users are in one Secret."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """The verifier of a password."""

    credential: ScramCredential

    @property
    def iterations(self) -> int:
        return self.credential.iterations

    @classmethod
    def of(
        cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS
    ) -> "Verifier":
        """The verifier of a password, with a random salt if none is given. This takes
        milliseconds. Raises `ValueError` for a password that Kafka's clients cannot send."""
        salt = salt or secrets.token_bytes(SALT_BYTES)
        keys = derived_keys(MECHANISM, salted_password(MECHANISM, password, salt, iterations))
        return cls(ScramCredential(salt, iterations, (keys,)))

    @classmethod
    def read(cls, text: str) -> "Verifier":
        """The verifier in an entry of the Secret. Raises `ValueError`, also for one that would
        need more space than there is for each user."""
        try:
            credential = read_verifier(text)[MECHANISM]
        except UNREADABLE as error:
            raise ValueError("the entry is no verifier") from error
        (keys,) = credential.keys
        lengths = {len(keys.stored_key), len(keys.server_key)}
        if len(credential.salt) > MAX_SALT_BYTES or lengths != {KEY_BYTES}:
            raise ValueError("the entry has a salt or a key of another length")
        return cls(credential)

    def text(self) -> str:
        """The entry of the Secret."""
        return verifier_text({MECHANISM: self.credential})

    def fits(self, password: str) -> bool:
        """Whether it is the verifier of this password; takes milliseconds."""
        if self.iterations != ITERATIONS:
            return False
        (wanted,) = Verifier.of(password, self.credential.salt).credential.keys
        (keys,) = self.credential.keys
        return hmac.compare_digest(
            wanted.stored_key + wanted.server_key, keys.stored_key + keys.server_key
        )
