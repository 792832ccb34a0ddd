"""Kafka's access control lists: what an ACL says, in Kafka's numbers (KIP-11, KIP-290).

An ACL allows or denies an operation on the resources that match its pattern, to a principal that
connects from a host.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource of the type. As a host: every host."""
ANYBODY: Final = "User:*"
"""The principal that stands for every principal."""
MAX_FIELD_LENGTH: Final = 1_024
"""Longest name, principal or host of an ACL, in characters; Kafka's limit is that of a string."""


class ResourceType(IntEnum):
    """The types of resources; ANY occurs in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a name is compared with the names of resources; ANY and MATCH occur in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a client does with a resource. ALL occurs in ACLs and filters, ANY in filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL denies or allows; ANY occurs in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One ACL. Two ACLs with the same fields are the same ACL."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    """In the form `type:name`, like `User:alice`."""
    host: str
    operation: Operation
    permission: Permission


OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that a resource of a type has; answers list which of them a client may do
(KIP-430)."""


def why_not_an_acl(acl: Acl) -> str:
    """Why an ACL cannot be created, in a clause; empty if it can be.

    Like Kafka, this does not check whether the resource type has the operation: such an ACL has no
    effect.
    """
    fields = acl.name, acl.principal, acl.host
    wrong = ""
    if acl.resource_type is ResourceType.ANY:
        wrong = "the resource type must not be ANY"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        wrong = "the pattern type must be LITERAL or PREFIXED"
    elif acl.operation is Operation.ANY:
        wrong = "the operation must not be ANY"
    elif acl.permission is Permission.ANY:
        wrong = "the permission must be ALLOW or DENY"
    elif not acl.name:
        wrong = "the resource name is empty"
    elif acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        wrong = f"the only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not is_principal(acl.principal):
        wrong = "the principal must have the form type:name, like User:alice"
    elif not acl.host:
        wrong = "the host is empty: use * for every host"
    elif max(map(len, fields)) > MAX_FIELD_LENGTH:
        wrong = f"a name, principal or host has more than {MAX_FIELD_LENGTH} characters"
    return wrong


def is_principal(text: str) -> bool:
    """Whether a text has the form `type:name`."""
    kind, colon, name = text.partition(":")
    return bool(kind and colon and name)
