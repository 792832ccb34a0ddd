"""The ACLs, users and quotas of a cluster, which its operator determines, as a broker knows them.

Before they are known, nobody but processes of the cluster may do anything: the authorizer has no
ACLs, and logins do not succeed. After that the last known ones stay in force.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from chiplog_broker.security.authorization import Creation
from chiplog_broker.security.quota_store import KnownQuotas
from chiplog_broker.security.scram_store import ChangedElsewhere, CredentialChange
from chiplog_broker.security.users import Users, Verifiers
from chiplog_core.authorizer.acls import Acl
from chiplog_core.authorizer.decision import Authorizer
from chiplog_core.authorizer.filters import AclFilter
from chiplog_core.client_quotas.entities import Entity
from chiplog_core.client_quotas.table import QuotaChange

CHANGE_THE_USER: Final = (
    "users, ACLs and quotas of this cluster are User objects in Kubernetes: change the User object"
)


class ClusterAccess:
    """The `AclStore`, `ScramStore` and `QuotaStore` of a broker on Kubernetes. Clients cannot
    change it."""

    def __init__(
        self, users: Users, *, has_logins: bool, quotas: KnownQuotas | None = None
    ) -> None:
        self.users = users
        self.quotas = quotas or KnownQuotas()
        self.has_logins = has_logins
        """Whether users log in with passwords on a listener of this broker."""
        self.version = 0
        self.authorizer = Authorizer()

    @property
    def verifiers(self) -> Verifiers:
        return self.users.verifiers

    def use_acls(self, authorizer: Authorizer) -> None:
        """From now on this decides."""
        self.authorizer = authorizer
        self.version += 1

    async def create(self, acls: Sequence[Acl]) -> list[Creation]:
        return [Creation(CHANGE_THE_USER)] * len(acls)

    async def delete(self, _filters: Sequence[AclFilter]) -> list[list[Acl]]:
        raise ChangedElsewhere(CHANGE_THE_USER)

    async def alter_quotas(self, _changes: Sequence[QuotaChange]) -> Mapping[Entity, str]:
        raise ChangedElsewhere(CHANGE_THE_USER)

    async def alter(self, _changes: Sequence[CredentialChange]) -> Mapping[str, str]:
        raise ChangedElsewhere(CHANGE_THE_USER)
