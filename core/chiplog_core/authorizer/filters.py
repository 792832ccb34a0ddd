"""Filters of DescribeAcls and DeleteAcls (KIP-140, KIP-290)."""

from typing import NamedTuple

from chiplog_core.authorizer.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


class AclFilter(NamedTuple):
    """Which ACLs a request means. None matches every name, principal or host."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches this ACL, field by field.

        The hosts are compared as texts, so a filter names the host as the ACL does.
        """
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        """Whether name and pattern type match: with MATCH, whether the ACL's pattern applies to a
        resource of this name, otherwise whether the names are equal."""
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, acl.pattern_type) and self.name in (
                None,
                acl.name,
            )
        if self.name is None:
            return True
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)
