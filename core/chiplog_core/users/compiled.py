"""One User, compiled to the entry that brokers read."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from chiplog_core.manifest.writing import write
from chiplog_core.model.access_list import AclEntry, AclOperation, ListedUser, Quotas
from chiplog_core.model.acl_rules import pattern_of
from chiplog_core.model.principals import principal_of
from chiplog_core.model.user import AclRule, User
from chiplog_core.problems import Problem
from chiplog_core.validate.user import check_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A User with its entry for brokers."""

    user: User
    listed: ListedUser
    size_bytes: int
    """Bytes of the entry in an AccessList, as JSON."""
    problems: tuple[Problem, ...]
    """Problems with the User itself."""


def compile_user(user: User) -> Compiled:
    """The User with its entry."""
    rules = () if user.spec.authorization is None else user.spec.authorization.acls
    quotas = user.spec.quotas
    listed = ListedUser(
        name=user.metadata.name,
        principal=principal_of(user),
        acls=tuple(_entries(rules)),
        quotas=None if quotas == Quotas() else quotas,
    )
    size = len(json.dumps(write(listed), separators=(",", ":"), ensure_ascii=False).encode()) + 1
    return Compiled(user=user, listed=listed, size_bytes=size, problems=check_user(user))


def _entries(rules: Iterable[AclRule]) -> Iterator[AclEntry]:
    """The rules in Kafka's words, those that differ only in operations together. They are sorted,
    because their order has no meaning: another order causes no write."""
    operations: dict[AclEntry, set[AclOperation]] = {}
    for rule in rules:
        operations.setdefault(pattern_of(rule), set()).update(rule.every_operation)
    order = {operation: number for number, operation in enumerate(AclOperation)}
    for pattern in sorted(operations, key=_sort_key):
        # Also next to All: clients see exactly the ACLs that the rules have.
        chosen = sorted(operations[pattern], key=order.__getitem__)
        yield replace(pattern, operations=tuple(chosen))


def _sort_key(entry: AclEntry) -> tuple[str, ...]:
    return entry.resource_type, entry.name, entry.pattern_type, entry.host, entry.permission
