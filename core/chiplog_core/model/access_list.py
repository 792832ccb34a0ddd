"""AccessList: the users of a cluster, as its brokers need them.

The operator compiles it from all `User` objects of the cluster, so that a broker watches one object
and not hundreds. It has the name of its BrokerCluster, which owns it. Verifiers of passwords are
not in it: they are in the Secret `names.scram_credentials`, one entry for each user.

It must fit into one object, so entries with one resource, host and permission share their fields,
and fields with their defaults are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from chiplog_core.authorizer.acls import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from chiplog_core.ids import MAX_INT32, MAX_INT64
from chiplog_core.limits import (
    MAX_ACL_NAME_LENGTH,
    MAX_ACL_OPERATIONS,
    MAX_ACLS_PER_USER,
    MAX_NAME_LENGTH,
    MAX_SUPER_USERS,
    MAX_USERS,
)
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.resource import Resource
from chiplog_core.naming import api

SHA256_PATTERN: Final = "[0-9a-f]{64}"

Principal = Annotated[str, Length(MAX_ACL_NAME_LENGTH, minimum=1)]


class AclResourceType(StrEnum):
    """The types of resources that users can get permissions for."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactionalId"


class AclPatternType(StrEnum):
    """How the name of an ACL is compared with names of resources."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclOperation(StrEnum):
    """The operations of ACLs."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class AclPermission(StrEnum):
    """Whether an ACL allows or denies."""

    ALLOW = "allow"
    DENY = "deny"


RESOURCE_TYPES: Final = {
    AclResourceType.TOPIC: ResourceType.TOPIC,
    AclResourceType.GROUP: ResourceType.GROUP,
    AclResourceType.CLUSTER: ResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
PATTERN_TYPES: Final = {
    AclPatternType.LITERAL: PatternType.LITERAL,
    AclPatternType.PREFIXED: PatternType.PREFIXED,
}
OPERATIONS: Final = {one: Operation[one.name] for one in AclOperation}
PERMISSIONS: Final = {
    AclPermission.ALLOW: Permission.ALLOW,
    AclPermission.DENY: Permission.DENY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclEntry:
    """ACLs of a user for one resource pattern: one for each operation."""

    resource_type: Annotated[AclResourceType, "The type of the resources."]
    name: Annotated[
        str,
        "Name of the resource, or a prefix of names; kafka-cluster for the cluster.",
        Length(MAX_ACL_NAME_LENGTH, minimum=1),
    ]
    pattern_type: Annotated[
        AclPatternType, "How the name is compared with names of resources; default: literal."
    ] = AclPatternType.LITERAL
    host: Annotated[
        str,
        "The address from which the user connects; default: *, from everywhere.",
        Length(MAX_ACL_NAME_LENGTH, minimum=1),
    ] = WILDCARD
    operations: Annotated[
        tuple[AclOperation, ...], "The operations.", Items(MAX_ACL_OPERATIONS, minimum=1)
    ]
    permission: Annotated[
        AclPermission, "Whether the operations are allowed or denied; default: allow."
    ] = AclPermission.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """How much of the brokers a user may use. A quota that is not set does not limit the user."""

    producer_byte_rate: Annotated[
        int | None,
        "How many bytes per second the user may send to each broker before it is throttled.",
        Range(0, MAX_INT64),
    ] = None
    consumer_byte_rate: Annotated[
        int | None,
        "How many bytes per second the user may fetch from each broker before it is throttled.",
        Range(0, MAX_INT64),
    ] = None
    request_percentage: Annotated[
        int | None,
        "How much time of the threads of each broker the user's requests may take, in percent of "
        "one thread.",
        Range(0, MAX_INT32),
    ] = None
    controller_mutation_rate: Annotated[
        float | None,
        "How many partitions per second the user may create and delete.",
        Range(0, MAX_INT32),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedUser:
    """A user of the cluster."""

    name: Annotated[
        str,
        "Name of the User object; also the name of the user's entry in the Secret with verifiers.",
        Length(MAX_NAME_LENGTH, minimum=1),
    ]
    principal: Annotated[
        Principal, "Kafka's principal of the user, like User:alice or User:CN=alice."
    ]
    acls: Annotated[
        tuple[AclEntry, ...], "What the user may do, and may not.", Items(MAX_ACLS_PER_USER)
    ] = ()
    quotas: Annotated[Quotas | None, "How much of the brokers the user may use."] = None

    def kafka_acls(self) -> Iterator[Acl]:
        """The user's ACLs, in the form of the authorizer."""
        for entry in self.acls:
            for operation in entry.operations:
                yield Acl(
                    resource_type=RESOURCE_TYPES[entry.resource_type],
                    name=entry.name,
                    pattern_type=PATTERN_TYPES[entry.pattern_type],
                    principal=self.principal,
                    host=entry.host,
                    operation=OPERATIONS[operation],
                    permission=PERMISSIONS[entry.permission],
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessListSpec:
    """The users of a cluster and what they may do."""

    users: Annotated[
        tuple[ListedUser, ...], "The users, in the order of their names.", Items(MAX_USERS)
    ] = ()
    super_users: Annotated[
        tuple[Principal, ...],
        "Principals that may do everything.",
        Items(MAX_SUPER_USERS),
    ] = ()
    allow_everyone_if_no_acl_found: Annotated[
        bool, "Whether everybody may use a resource for which no ACL exists; default: false."
    ] = False
    credentials_digest: Annotated[
        str | None,
        "SHA-256, in hex, of the content of the Secret with the verifiers of passwords: a broker "
        "reads the Secret again when it changes. Not set if there is no such Secret.",
        Length(64, minimum=64),
        Pattern(SHA256_PATTERN, "64 lower-case hex digits"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessList(Resource):
    """Users of a cluster, with their ACLs and quotas. Written by the operator, not by users."""

    KIND = api.ACCESS_LIST

    spec: AccessListSpec
