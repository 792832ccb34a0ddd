"""What clients are allowed in the matrix: for each permission, and for each that is taken away.

Without a login every client is `User:ANONYMOUS`, so clients differ by their addresses: each grant
has an address of its own on loopback.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from chiplog_core.authorizer.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from e2e.kafka.ports import LOOPBACK

ANONYMOUS: Final = "User:ANONYMOUS"
ADMIN_HOST: Final = LOOPBACK
"""The address of the brokers and of the client that prepares everything."""
ALLOW, DENY = Permission.ALLOW, Permission.DENY

OPERATIONS: Final = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: (
        "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
    ),
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE",
}


class Grant(NamedTuple):
    """A client: its address, and its ACLs."""

    name: str
    host: str
    acls: tuple[Acl, ...]


def grants() -> Iterator[Grant]:
    """All clients of the matrix."""
    for number, (name, rights) in enumerate(all_rights(), 1):
        host = f"127.0.1.{number}"
        yield Grant(name, host, tuple(acl(host, *one) for one in rights))


def all_rights() -> Iterator[tuple[str, list[tuple[Permission, ResourceType, Operation]]]]:
    """The name of each client, and what it is allowed or denied."""
    everything = [(ALLOW, kind, Operation.ALL) for kind in OPERATIONS]
    yield "nothing", []
    yield "everything", everything
    for kind, names in OPERATIONS.items():
        for operation in (*(Operation[name] for name in names.split()), Operation.ALL):
            what = f"{operation.name} {kind.name}"
            yield f"only {what}", [(ALLOW, kind, operation)]
            yield f"all but {what}", [*everything, (DENY, kind, operation)]


def acl(host: str, permission: Permission, kind: ResourceType, operation: Operation) -> Acl:
    """An ACL for every resource of a type."""
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD
    return Acl(kind, name, PatternType.LITERAL, ANONYMOUS, host, operation, permission)


ADMIN: Final = Grant(
    "admin",
    ADMIN_HOST,
    tuple(acl(ADMIN_HOST, ALLOW, kind, Operation.ALL) for kind in OPERATIONS),
)
