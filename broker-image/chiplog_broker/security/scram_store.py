"""Changes of SCRAM credentials, and where they are stored."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.users import Verifiers
from chiplog_wire.scram import Mechanism, ScramCredential


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

    async def alter(
        self, changes: Sequence[CredentialChange], principal: str, /
    ) -> Mapping[str, Refusal]:
        """Store these changes, of which each user has one, for this principal. Returns user -> why
        it was refused, for those that were. Raises `OSError`, and then nothing was changed."""
