"""Changes of SCRAM credentials, and where they are stored."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from chiplog_broker.security.users import MAX_ITERATIONS, MAX_SALT_BYTES, Verifiers
from chiplog_wire.scram import MIN_ITERATIONS, Mechanism, ScramCredential, ScramKeys


class ChangedElsewhere(Exception):  # noqa: N818 - a name for what happened
    """Users and ACLs are not changed by requests here; the message names how they are."""


class CredentialChange(NamedTuple):
    """A credential to store, or with None one to delete."""

    mechanism: Mechanism
    username: str
    credential: ScramCredential | None


class ScramStore(Protocol):
    """Where the credentials of users are."""

    @property
    def verifiers(self) -> Verifiers:
        """The credentials of all users."""

    async def alter(self, changes: Sequence[CredentialChange]) -> Mapping[str, str]:
        """Store these changes, of which each user has one. Returns user -> why it was refused, for
        those that were. Raises `OSError` or `ChangedElsewhere`, and then nothing was changed."""


def read_credential(stored: Mapping[str, Any]) -> ScramCredential:
    """A credential from its JSON with `salt`, `iterations`, `storedKey` and `serverKey`; bytes are
    in base64. Raises `ValueError`, `TypeError` or `LookupError`, also for one that no login may
    use: its iterations would hold a thread for too long."""
    salt, stored_key, server_key = (
        b64decode(stored[field], validate=True) for field in ("salt", "storedKey", "serverKey")
    )
    iterations = stored["iterations"]
    if not isinstance(iterations, int) or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"{iterations} iterations")
    if not 0 < len(salt) <= MAX_SALT_BYTES or not stored_key or not server_key:
        raise ValueError("a field is empty or too long")
    return ScramCredential(salt, iterations, (ScramKeys(stored_key, server_key),))
