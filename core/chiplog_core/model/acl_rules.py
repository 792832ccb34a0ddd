"""The rules of a User as a set of Kafka's ACLs: which there are, and the rules with more or fewer.

A rule has several operations, and so is several ACLs. Several rules may have the same ACL. A change
leaves all other rules, and their order, as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from chiplog_core.authorizer.acls import CLUSTER_NAME, Acl
from chiplog_core.model.access_list import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclEntry,
    AclOperation,
    AclPatternType,
    AclResourceType,
)
from chiplog_core.model.user import AclResource, AclRule, AclRulePatternType

_PATTERN_TYPES: Final = {
    AclRulePatternType.LITERAL: AclPatternType.LITERAL,
    AclRulePatternType.PREFIX: AclPatternType.PREFIXED,
}
_RULE_PATTERN_TYPES: Final = {there: here for here, there in _PATTERN_TYPES.items()}
_RESOURCE_TYPES: Final = {there: here for here, there in RESOURCE_TYPES.items()}
_ENTRY_PATTERN_TYPES: Final = {there: here for here, there in PATTERN_TYPES.items()}
_OPERATIONS: Final = {there: here for here, there in OPERATIONS.items()}
_PERMISSIONS: Final = {there: here for here, there in PERMISSIONS.items()}


def pattern_of(rule: AclRule) -> AclEntry:
    """What a rule is about: its entry without operations."""
    return AclEntry(
        resource_type=rule.resource.type,
        name=rule.resource.name or CLUSTER_NAME,
        pattern_type=_PATTERN_TYPES[rule.resource.pattern_type],
        host=rule.host,
        operations=(),
        permission=rule.type,
    )


def entries_of(acls: Iterable[Acl]) -> tuple[AclEntry, ...]:
    """The ACLs as entries, those that differ only in operations together; their principals are left
    out. Raises `ValueError` for one that a User cannot have."""
    found: dict[AclEntry, dict[AclOperation, None]] = {}
    for acl in acls:
        if why := why_not_a_rule(acl):
            raise ValueError(why)
        pattern = AclEntry(
            resource_type=_RESOURCE_TYPES[acl.resource_type],
            name=acl.name,
            pattern_type=_ENTRY_PATTERN_TYPES[acl.pattern_type],
            host=acl.host,
            operations=(),
            permission=_PERMISSIONS[acl.permission],
        )
        found.setdefault(pattern, {})[_OPERATIONS[acl.operation]] = None
    return tuple(
        replace(pattern, operations=tuple(operations)) for pattern, operations in found.items()
    )


def why_not_a_rule(acl: Acl) -> str:
    """Why no User can have this ACL, in a clause; empty if one can."""
    if acl.resource_type not in _RESOURCE_TYPES:
        return f"Users have no ACLs for resources of type {acl.resource_type.name}"
    if acl.operation not in _OPERATIONS:
        return f"Users have no ACLs for the operation {acl.operation.name}"
    if acl.resource_type in _ONE_RESOURCE and acl.pattern_type not in _LITERAL:
        return "there is only one cluster: use the pattern type LITERAL"
    return ""


_ONE_RESOURCE: Final = (RESOURCE_TYPES[AclResourceType.CLUSTER],)
_LITERAL: Final = (PATTERN_TYPES[AclPatternType.LITERAL],)


def with_entries(rules: Iterable[AclRule], added: Iterable[AclEntry]) -> tuple[AclRule, ...]:
    """The rules with these ACLs, too. A rule about the same resources, host and type gets the
    operations that it lacks; without one there is another rule."""
    found = list(rules)
    for entry in added:
        pattern = replace(entry, operations=())
        places = [place for place, rule in enumerate(found) if pattern_of(rule) == pattern]
        known = {one for place in places for one in found[place].every_operation}
        lacking = tuple(one for one in dict.fromkeys(entry.operations) if one not in known)
        if not lacking:
            continue
        if places:
            rule = found[places[0]]
            found[places[0]] = replace(
                rule, operations=(*rule.every_operation, *lacking), operation=None
            )
        else:
            found.append(_rule_of(pattern, lacking))
    return tuple(found)


def without_entries(rules: Iterable[AclRule], removed: Iterable[AclEntry]) -> tuple[AclRule, ...]:
    """The rules without these ACLs. A rule without any operation left is left out."""
    unwanted: dict[AclEntry, set[AclOperation]] = {}
    for entry in removed:
        unwanted.setdefault(replace(entry, operations=()), set()).update(entry.operations)
    return tuple(_remaining(rules, unwanted))


def _remaining(
    rules: Iterable[AclRule], unwanted: Mapping[AclEntry, set[AclOperation]]
) -> Iterator[AclRule]:
    """What is left of each rule. `unwanted` has the operations to remove, by pattern."""
    for rule in rules:
        operations = unwanted.get(pattern_of(rule), set())
        if operations.isdisjoint(rule.every_operation):
            yield rule
        elif kept := tuple(one for one in rule.every_operation if one not in operations):
            yield replace(rule, operations=kept, operation=None)


def _rule_of(pattern: AclEntry, operations: tuple[AclOperation, ...]) -> AclRule:
    """A rule about the resources of a pattern."""
    is_cluster = pattern.resource_type is AclResourceType.CLUSTER
    return AclRule(
        type=pattern.permission,
        resource=AclResource(
            type=pattern.resource_type,
            name=None if is_cluster else pattern.name,
            pattern_type=_RULE_PATTERN_TYPES[pattern.pattern_type],
        ),
        host=pattern.host,
        operations=operations,
    )
