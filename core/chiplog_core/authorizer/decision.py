"""The decision whether a client may do something, as Kafka's StandardAuthorizer makes it.

A super user may do everything. Otherwise one DENY that applies denies, whatever else there is; else
one ALLOW that applies allows. Without either the answer is no, except for a resource that no ACL
matches at all, where `allow.everyone.if.no.acl.found` says what holds.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from chiplog_core.authorizer.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from chiplog_core.authorizer.index import AclIndex, applies, normal_host, of_principal

NO_RESOURCE: Final = "hardcode"
"""Kafka's name for the resource by which it asks whether somebody may do something anywhere."""


class Client(NamedTuple):
    """Who asks: the principal, and the address that it connects from."""

    principal: str
    host: str


class Decision(NamedTuple):
    """Whether something is allowed, and the ACL that decided; None if it was none of the ACLs."""

    is_allowed: bool
    acl: Acl | None = None


ALLOWED: Final = Decision(is_allowed=True)
DENIED: Final = Decision(is_allowed=False)


class Authorizer:
    """Decides by ACLs, super users and the rule for resources without ACLs."""

    def __init__(
        self,
        acls: Iterable[Acl] = (),
        super_users: Iterable[str] = (),
        *,
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.acls = AclIndex(acls)
        self.super_users = frozenset(super_users)
        self._without_acls = ALLOWED if allow_everyone_if_no_acl_found else DENIED

    def decide(
        self, client: Client, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Whether the client may do this with the resource of this name."""
        if client.principal in self.super_users:
            return ALLOWED
        host = normal_host(client.host)
        allowed_by, found = None, False
        for of_pattern in self.acls.of_resource(resource_type, name):
            found = True
            for acl in of_principal(of_pattern, client.principal):
                if not applies(acl, host, operation):
                    continue
                if acl.permission is Permission.DENY:
                    return Decision(is_allowed=False, acl=acl)
                allowed_by = acl
        if allowed_by is not None:
            return Decision(is_allowed=True, acl=allowed_by)
        return DENIED if found else self._without_acls

    def allows_anywhere(
        self, client: Client, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the client may do this with at least one possible resource of a type (KIP-679).

        A DENY takes away the resources that its pattern covers: all of them, or those with a
        prefix, or one. Like Kafka, this counts only ACLs of exactly this operation or of ALL.
        """
        if self.decide(client, operation, resource_type, NO_RESOURCE).is_allowed:
            return True
        host = normal_host(client.host)
        relevant = [
            acl
            for acl in self.acls.of_type(resource_type, client.principal)
            if acl.operation in (operation, Operation.ALL) and applies(acl, host, operation)
        ]
        denied = {
            (acl.pattern_type, acl.name) for acl in relevant if acl.permission is Permission.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            acl.permission is Permission.ALLOW and not _is_covered(acl, denied) for acl in relevant
        )


def _is_covered(allowed: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether denied patterns cover all that an ALLOW allows. Several of them together never do, as
    there always is another name; `*` has names that no prefix covers."""
    is_literal = allowed.pattern_type is PatternType.LITERAL
    if is_literal and allowed.name == WILDCARD:
        return False
    if is_literal and (PatternType.LITERAL, allowed.name) in denied:
        return True
    return any(
        (PatternType.PREFIXED, allowed.name[:length]) in denied
        for length in range(1, len(allowed.name) + 1)
    )
