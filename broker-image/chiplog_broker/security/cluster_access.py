"""The ACLs and users of a cluster, which its operator determines, as a broker knows them now.

Before they are known, nobody but processes of the cluster may do anything: the authorizer has no
ACLs, and logins do not succeed. After that the last known ones stay in force.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from chiplog_broker.security.authorization import Creation
from chiplog_broker.security.scram_store import ChangedElsewhere, CredentialChange
from chiplog_broker.security.users import Users, Verifiers
from chiplog_core.authorizer.acls import Acl
from chiplog_core.authorizer.decision import Authorizer
from chiplog_core.authorizer.filters import AclFilter

CHANGE_THE_USER: Final = (
    "users and ACLs of this cluster are User objects in Kubernetes: change the User object"
)


class ClusterAccess:
    """The `AclStore` and `ScramStore` of a broker on Kubernetes. Clients cannot change it."""

    def __init__(self, users: Users, *, has_logins: bool) -> None:
        self.users = users
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

    async def alter(self, _changes: Sequence[CredentialChange]) -> Mapping[str, str]:
        raise ChangedElsewhere(CHANGE_THE_USER)
