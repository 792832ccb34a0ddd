"""Filters of ACLs, and what makes an ACL invalid."""

import pytest

from chiplog_core.authorizer.acls import (
    CLUSTER_NAME,
    MAX_FIELD_LENGTH,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    why_not_an_acl,
)
from chiplog_core.authorizer.filters import AclFilter
from chiplog_core.authorizer.index import AclIndex

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
FOO = Acl(ResourceType.TOPIC, "foo", LITERAL, "User:bob", "*", Operation.READ, Permission.ALLOW)
STAR = FOO._replace(name="*")
FO = FOO._replace(name="fo", pattern_type=PREFIXED)
FOO_PREFIX = FOO._replace(pattern_type=PREFIXED)
GROUP = FOO._replace(resource_type=ResourceType.GROUP, principal="User:ann", host="10.0.0.1")
DENY = FOO._replace(permission=Permission.DENY, operation=Operation.WRITE)
ALL = [FOO, STAR, FO, FOO_PREFIX, GROUP, DENY]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), ALL),
        (AclFilter(resource_type=ResourceType.GROUP), [GROUP]),
        (AclFilter(resource_type=ResourceType.CLUSTER), []),
        (AclFilter(principal="User:ann"), [GROUP]),
        (AclFilter(host="*", operation=Operation.WRITE), [DENY]),
        (AclFilter(permission=Permission.DENY), [DENY]),
        (AclFilter(name="foo"), [FOO, FOO_PREFIX, GROUP, DENY]),
        (AclFilter(name="foo", pattern_type=LITERAL), [FOO, GROUP, DENY]),
        (AclFilter(name="foo", pattern_type=PREFIXED), [FOO_PREFIX]),
        (AclFilter(pattern_type=PREFIXED), [FO, FOO_PREFIX]),
        (AclFilter(name="foo", pattern_type=PatternType.MATCH), ALL),
        (AclFilter(name="fox", pattern_type=PatternType.MATCH), [STAR, FO]),
        (AclFilter(name="f", pattern_type=PatternType.MATCH), [STAR]),
        (AclFilter(name="*", pattern_type=PatternType.MATCH), [STAR]),
        (AclFilter(pattern_type=PatternType.MATCH), ALL),
    ],
)
def test_what_a_filter_matches(wanted: AclFilter, expected: list[Acl]) -> None:
    assert AclIndex(ALL).matching(wanted) == expected


def test_an_acl_is_kept_once() -> None:
    index = AclIndex([FOO, FOO])
    assert (len(index), list(index)) == (1, [FOO])
    index.remove(FOO)
    assert FOO not in index
    assert not list(index.of_resource(ResourceType.TOPIC, "foo"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"principal": "Group:g"}, ""),
        ({"operation": Operation.CLUSTER_ACTION}, ""),
        ({"resource_type": ResourceType.CLUSTER, "name": CLUSTER_NAME}, ""),
        ({"resource_type": ResourceType.CLUSTER}, "the only valid name"),
        ({"resource_type": ResourceType.ANY}, "the resource type"),
        ({"pattern_type": PatternType.MATCH}, "the pattern type"),
        ({"pattern_type": PatternType.ANY}, "the pattern type"),
        ({"operation": Operation.ANY}, "the operation"),
        ({"permission": Permission.ANY}, "the permission"),
        ({"name": ""}, "the resource name is empty"),
        ({"host": ""}, "the host is empty"),
        ({"principal": "bob"}, "the principal"),
        ({"principal": ":bob"}, "the principal"),
        ({"principal": "User:"}, "the principal"),
        ({"name": "n" * (MAX_FIELD_LENGTH + 1)}, "a name, principal or host"),
    ],
)
def test_what_makes_an_acl_invalid(changes: dict[str, object], why: str) -> None:
    found = why_not_an_acl(FOO._replace(**changes))  # type: ignore[arg-type]
    assert found.startswith(why)
    assert bool(found) == bool(why)
