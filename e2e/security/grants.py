"""What clients are allowed in the matrix: for each permission, and for each that is taken away; and
everything, but of a type only some resources.

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
from e2e.security.cases import ABSENT, GROUP, OPEN, TOPIC

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


NAMED: Final = {
    ResourceType.TOPIC: (TOPIC, PatternType.LITERAL),
    ResourceType.GROUP: (GROUP[:-1], PatternType.PREFIXED),
    ResourceType.TRANSACTIONAL_ID: (OPEN[:-1], PatternType.PREFIXED),
}
"""The resources of a client that may use no others of their type."""


class Grant(NamedTuple):
    """A client: its address, and its ACLs."""

    name: str
    host: str
    acls: tuple[Acl, ...]


def grants() -> Iterator[Grant]:
    """All clients of the matrix."""
    clients = [
        *((name, [wide(*one) for one in rights]) for name, rights in all_rights()),
        *((f"everything, but of {kind.name} only {NAMED[kind][0]}", only(kind)) for kind in NAMED),
        (f"everything, but of TOPIC not {ABSENT}", [*ADMIN.acls, NOT_ABSENT]),
    ]
    for number, (name, acls) in enumerate(clients, 1):
        host = f"127.0.1.{number}"
        yield Grant(name, host, tuple(acl._replace(host=host) for acl in acls))


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


def wide(permission: Permission, kind: ResourceType, operation: Operation) -> Acl:
    """An ACL for every resource of a type, for clients at the administrator's address."""
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD
    return Acl(kind, name, PatternType.LITERAL, ANONYMOUS, ADMIN_HOST, operation, permission)


def only(kind: ResourceType) -> list[Acl]:
    """ACLs for everything, but of this type only for `NAMED` resources."""
    name, pattern = NAMED[kind]
    return [
        acl._replace(name=name, pattern_type=pattern) if acl.resource_type is kind else acl
        for acl in ADMIN.acls
    ]


ADMIN: Final = Grant(
    "admin", ADMIN_HOST, tuple(wide(ALLOW, kind, Operation.ALL) for kind in OPERATIONS)
)
NOT_ABSENT: Final = wide(DENY, ResourceType.TOPIC, Operation.ALL)._replace(name=ABSENT)
