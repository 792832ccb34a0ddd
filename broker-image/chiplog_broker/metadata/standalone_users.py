"""The users of a standalone broker: one file in the metadata directory, replaced atomically."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from chiplog_broker.metadata.stored_list import encode_list, read_list
from chiplog_broker.ports.disk import Disk
from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.security.scram_store import CredentialChange
from chiplog_broker.security.users import Users, Verifiers
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import Mechanism, ScramCredential
from chiplog_wire.verifiers import credential_fields, read_credential

USERS_FILE: Final = "users.json"
MAX_CREDENTIALS: Final = 10_000
"""The whole file is written at each change, so it must stay small."""
TOO_MANY: Final = Refusal(
    ErrorCode.policy_violation,
    f"a standalone broker keeps at most {MAX_CREDENTIALS} credentials",
)


class StandaloneUsers:
    """The `ScramStore` of a standalone broker, which keeps `users` current."""

    def __init__(self, disk: Disk, users: Users) -> None:
        """Read the stored credentials. Raises `ValueError` if the file cannot be read."""
        self._disk = disk
        self._users = users
        self._lock = asyncio.Lock()
        users.replace(read_users(disk))

    @property
    def verifiers(self) -> Verifiers:
        return self._users.verifiers

    async def alter(
        self, changes: Sequence[CredentialChange], _principal: str = ANONYMOUS
    ) -> Mapping[str, Refusal]:
        """Store these changes; returns user -> why it was refused. Raises `OSError`, and then
        nothing was changed."""
        async with self._lock:
            found, refused = dict(self._users.verifiers), {}
            for mechanism, username, credential in changes:
                if credential is None:
                    found.pop((mechanism, username), None)
                elif (mechanism, username) not in found and len(found) >= MAX_CREDENTIALS:
                    refused[username] = TOO_MANY
                else:
                    found[mechanism, username] = credential
            if found != self._users.verifiers:
                # In another thread: thousands of credentials take some ten milliseconds to encode.
                await self._disk.replace(USERS_FILE, await asyncio.to_thread(encode, found))
                self._users.replace(found)
            return refused

    async def add_missing(self, changes: Sequence[CredentialChange]) -> None:
        """Store the credentials of users that have none of the same mechanism. Raises `OSError`."""
        known = self._users.verifiers
        await self.alter([one for one in changes if (one.mechanism, one.username) not in known])


def encode(verifiers: Verifiers) -> bytes:
    """The content of the file, with a checksum line."""
    stored = (
        {
            "name": name,
            "mechanism": mechanism.value,
            **credential_fields(credential),
        }
        for (mechanism, name), credential in verifiers.items()
    )
    return encode_list("credentials", stored)


def read_users(disk: Disk) -> Verifiers:
    """The stored credentials; none if there is no file. Raises `ValueError` if it cannot be
    read."""
    return dict(read_list(disk, USERS_FILE, "credentials", decode))


def decode(stored: Mapping[str, Any]) -> tuple[tuple[Mechanism, str], ScramCredential]:
    """A stored credential. Raises `LookupError`, `TypeError` or `ValueError`."""
    return (Mechanism(stored["mechanism"]), str(stored["name"])), read_credential(stored)
