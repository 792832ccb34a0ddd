"""The ACLs of a standalone broker: one file in the metadata directory, replaced atomically."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from chiplog_broker.metadata.stored_list import encode_list, read_list
from chiplog_broker.ports.disk import Disk
from chiplog_broker.security.authorization import (
    MAX_MATCHES,
    TOO_MANY_MATCHES,
    Creation,
    Deletions,
)
from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.settings import setting
from chiplog_core.authorizer.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    why_not_an_acl,
)
from chiplog_core.authorizer.decision import Authorizer
from chiplog_core.authorizer.filters import AclFilter
from chiplog_core.config import broker_keys as keys
from chiplog_wire.protocol.errors import ErrorCode

ACLS_FILE: Final = "acls.json"
MAX_ACLS: Final = 10_000
"""The whole file is written at each change, so it must stay small."""
TOO_MANY: Final = Refusal(
    ErrorCode.policy_violation,
    f"a standalone broker keeps at most {MAX_ACLS} ACLs: use prefixes or wildcards",
)


class StandaloneAcls:
    """The `AclStore` of a standalone broker. Super users are those of its configuration."""

    def __init__(self, disk: Disk, config: Mapping[str, str]) -> None:
        """Read the stored ACLs. Raises `ValueError` if the file cannot be read: with fewer ACLs, a
        DENY might be missing."""
        self._disk = disk
        self._lock = asyncio.Lock()
        self.version = 0
        super_users: tuple[str, ...] = setting(config, keys.SUPER_USERS)
        self.authorizer = Authorizer(
            read_acls(disk),
            super_users,
            allow_everyone_if_no_acl_found=setting(config, keys.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND),
        )

    async def create(self, acls: Sequence[Acl], _principal: str = ANONYMOUS) -> list[Creation]:
        """Add valid ACLs; one result for each. Raises `OSError`, and then nothing was changed."""
        async with self._lock:
            known = self.authorizer.acls
            added: dict[Acl, None] = {}
            results = []
            for acl in acls:
                is_new = acl not in known and acl not in added
                if is_new and len(known) + len(added) >= MAX_ACLS:
                    results.append(Creation(TOO_MANY))
                    continue
                if is_new:
                    added[acl] = None
                results.append(Creation(is_new=is_new))
            if added:
                await self._write((*known, *added))
                for acl in added:
                    known.add(acl)
                self.version += 1
            return results

    async def delete(self, filters: Sequence[AclFilter], _principal: str = ANONYMOUS) -> Deletions:
        """Delete the ACLs that the filters match; returns the matches of each filter, be it that an
        earlier one matches them, too. Raises `OSError`, or `ValueError` for more than
        `MAX_MATCHES` matches; then nothing was changed."""
        async with self._lock:
            known = self.authorizer.acls
            # In another thread, as each filter reads all ACLs; only the lock's holder changes them.
            matches = await asyncio.to_thread(lambda: list(map(known.matching, filters)))
            if sum(map(len, matches)) > MAX_MATCHES:
                raise ValueError(TOO_MANY_MATCHES)
            removed = {acl for matched in matches for acl in matched}
            if removed:
                await self._write(tuple(acl for acl in known if acl not in removed))
                for acl in removed:
                    known.remove(acl)
                self.version += 1
            return Deletions(matches)

    async def _write(self, acls: Sequence[Acl]) -> None:
        """Replace the file, durable on return. Raises `OSError`."""
        # In another thread: thousands of ACLs take some ten milliseconds to encode.
        await self._disk.replace(ACLS_FILE, await asyncio.to_thread(encode, acls))


def encode(acls: Sequence[Acl]) -> bytes:
    """The content of the file, with a checksum line."""
    return encode_list("acls", map(encode_acl, acls))


def encode_acl(acl: Acl) -> dict[str, str]:
    return {
        "resourceType": acl.resource_type.name,
        "name": acl.name,
        "patternType": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def read_acls(disk: Disk) -> list[Acl]:
    """The stored ACLs; none if there is no file. Raises `ValueError` if it cannot be read."""
    acls = read_list(disk, ACLS_FILE, "acls", decode_acl)
    for acl in acls:
        if why := why_not_an_acl(acl):
            raise ValueError(f"metadata/{ACLS_FILE} has an invalid ACL: {why}")
    return acls


def decode_acl(stored: Mapping[str, Any]) -> Acl:
    """A stored ACL. Raises `KeyError` or `TypeError`."""
    return Acl(
        ResourceType[stored["resourceType"]],
        str(stored["name"]),
        PatternType[stored["patternType"]],
        str(stored["principal"]),
        str(stored["host"]),
        Operation[stored["operation"]],
        Permission[stored["permission"]],
    )
