"""The ACLs, users and quotas of a cluster, which its operator determines, as a broker knows them.

Before they are known, nobody but processes of the cluster may do anything: the authorizer has no
ACLs, and logins do not succeed. After that the last known ones stay in force.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from chiplog_broker.security.authorization import Creation, Deletions
from chiplog_broker.security.quota_store import KnownQuotas
from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.scram_store import CredentialChange
from chiplog_broker.security.users import Users, Verifiers
from chiplog_core.authorizer.acls import Acl
from chiplog_core.authorizer.decision import Authorizer
from chiplog_core.authorizer.filters import AclFilter
from chiplog_core.client_quotas.entities import Entity
from chiplog_core.client_quotas.table import QuotaChange, QuotaTable


class UserChanges(Protocol):
    """Has the operator change User objects, as `AclStore`, `ScramStore` and `QuotaStore` say."""

    async def create(self, acls: Sequence[Acl], principal: str, /) -> list[Creation]: ...

    async def delete(self, filters: Sequence[AclFilter], principal: str, /) -> Deletions: ...

    async def alter(
        self, changes: Sequence[CredentialChange], principal: str, /
    ) -> Mapping[str, Refusal]: ...

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], principal: str, /, *, validate_only: bool
    ) -> Mapping[Entity, Refusal]: ...


class ClusterAccess:
    """The `AclStore`, `ScramStore` and `QuotaStore` of a broker on Kubernetes."""

    changes: UserChanges
    """Carries out changes; set when the broker joins its cluster, before it has clients."""

    def __init__(
        self, users: Users, *, has_logins: bool, quotas: KnownQuotas | None = None
    ) -> None:
        self.users = users
        self.quotas = quotas or KnownQuotas()
        self.has_logins = has_logins
        """Whether users log in with passwords on a listener of this broker."""
        self.version = 0
        self.authorizer = Authorizer()
        self._waiting: set[asyncio.Event] = set()
        """Of those that wait for a change."""

    @property
    def verifiers(self) -> Verifiers:
        return self.users.verifiers

    def use_acls(self, authorizer: Authorizer, quotas: QuotaTable) -> None:
        """From now on these decide."""
        self.authorizer = authorizer
        self.quotas.replace(quotas)
        self.version += 1
        self._changed()

    def use_users(self, verifiers: Verifiers, principals: Set[str]) -> None:
        """From now on these are the users."""
        self.users.replace(verifiers, principals)
        self._changed()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the ACLs, users and quotas are so that this holds."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            while not holds():
                await event.wait()
                event.clear()
        finally:
            self._waiting.discard(event)

    async def create(self, acls: Sequence[Acl], principal: str) -> list[Creation]:
        return await self.changes.create(acls, principal)

    async def delete(self, filters: Sequence[AclFilter], principal: str) -> Deletions:
        return await self.changes.delete(filters, principal)

    async def alter(
        self, changes: Sequence[CredentialChange], principal: str
    ) -> Mapping[str, Refusal]:
        return await self.changes.alter(changes, principal)

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], principal: str, *, validate_only: bool = False
    ) -> Mapping[Entity, Refusal]:
        return await self.changes.alter_quotas(changes, principal, validate_only=validate_only)

    def _changed(self) -> None:
        for event in self._waiting:
            event.set()
