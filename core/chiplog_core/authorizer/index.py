"""The ACLs, arranged so that those of one resource and one principal are found at once.

A resource is matched by its literal name, by `*`, and by prefixes. Only prefixes of lengths that
exist are looked up. So a decision takes a few look-ups, whatever the number of ACLs.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from chiplog_core.authorizer.acls import (
    ANYBODY,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from chiplog_core.authorizer.filters import AclFilter

OfPattern: TypeAlias = dict[str, dict[Acl, None]]
"""The ACLs of one pattern: principal -> its ACLs, as an ordered set."""

IMPLY = {
    Operation.DESCRIBE: frozenset(
        {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
    ),
}
"""The operations whose ALLOW also allows the key. A DENY denies nothing but its own operation."""


class AclIndex:
    """A set of ACLs."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._acls: dict[Acl, None] = {}
        self._patterns: dict[tuple[ResourceType, PatternType, str], OfPattern] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        """How many prefixes of each length the ACLs of a resource type have."""
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return len(self._acls)

    def __iter__(self) -> Iterator[Acl]:
        """All ACLs, in the order in which they were added."""
        return iter(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def add(self, acl: Acl) -> None:
        """Add an ACL; does nothing if it exists."""
        if acl in self._acls:
            return
        self._acls[acl] = None
        pattern = acl.resource_type, acl.pattern_type, acl.name
        of_pattern = self._patterns.get(pattern)
        if of_pattern is None:
            of_pattern = self._patterns[pattern] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
                lengths[len(acl.name)] += 1
        of_pattern.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        """Remove an ACL, which must exist."""
        del self._acls[acl]
        pattern = acl.resource_type, acl.pattern_type, acl.name
        of_pattern = self._patterns[pattern]
        of_principal = of_pattern[acl.principal]
        del of_principal[acl]
        if of_principal:
            return
        del of_pattern[acl.principal]
        if of_pattern:
            return
        del self._patterns[pattern]
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that a filter matches, in the order in which they were added."""
        return [acl for acl in self._acls if wanted.matches(acl)]

    def of_resource(self, resource_type: ResourceType, name: str) -> Iterator[OfPattern]:
        """The ACLs of each pattern that matches a resource."""
        patterns, literal = self._patterns, PatternType.LITERAL
        names = (name,) if name == WILDCARD else (name, WILDCARD)
        for one in names:
            if (found := patterns.get((resource_type, literal, one))) is not None:
                yield found
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                pattern = resource_type, PatternType.PREFIXED, name[:length]
                if (found := patterns.get(pattern)) is not None:
                    yield found

    def of_type(self, resource_type: ResourceType, principal: str) -> Iterator[Acl]:
        """The ACLs for this principal on any resource of a type."""
        for (kind, _, _), of_pattern in self._patterns.items():
            if kind is resource_type:
                yield from of_principal(of_pattern, principal)


def of_principal(of_pattern: OfPattern, principal: str) -> Iterator[Acl]:
    """The ACLs of a pattern that apply to a principal: its own and everybody's."""
    yield from of_pattern.get(principal, ())
    if principal != ANYBODY:
        yield from of_pattern.get(ANYBODY, ())


def applies(acl: Acl, host: str, operation: Operation) -> bool:
    """Whether an ACL of the right resource and principal says something about an operation from a
    host (in the form of `normal_host`)."""
    if acl.host != WILDCARD and normal_host(acl.host) != host:
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in IMPLY.get(operation, ())


@lru_cache(maxsize=4_096)
def normal_host(text: str) -> str:
    """An address in one form, so that `::1` equals Java's `0:0:0:0:0:0:0:1`; another text as it
    is. An IPv4 address that comes over IPv6 is the IPv4 address, as in Java."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
