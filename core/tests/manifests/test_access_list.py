"""The list of users as brokers read it."""

import json

from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.limits import MAX_ACCESS_LIST_BYTES
from chiplog_core.model.access_list import (
    AccessList,
    AccessListSpec,
    AclEntry,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    ListedUser,
    Quotas,
)
from chiplog_core.model.metadata import Metadata

ENTRY = AclEntry(
    resource_type=AclResourceType.TOPIC,
    name="a-topic-with-a-name-of-forty-characters-",
    pattern_type=AclPatternType.PREFIXED,
    operations=(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE),
    permission=AclPermission.DENY,
)


def test_an_entry_is_one_acl_for_each_operation() -> None:
    user = ListedUser(name="alice", principal="User:CN=alice", acls=(ENTRY,))

    first, second, third = user.kafka_acls()

    assert first == Acl(
        ResourceType.TOPIC,
        ENTRY.name,
        PatternType.PREFIXED,
        "User:CN=alice",
        "*",
        Operation.READ,
        Permission.DENY,
    )
    assert (second.operation, third.operation) == (Operation.DESCRIBE, Operation.WRITE)


def test_every_word_for_an_operation_is_one_of_the_authorizer() -> None:
    every = AclEntry(
        resource_type=AclResourceType.CLUSTER, name="kafka-cluster", operations=(*AclOperation,)
    )
    user = ListedUser(name="alice", principal="User:alice", acls=(every,))

    assert {acl.operation for acl in user.kafka_acls()} == {
        one for one in Operation if Operation.ALL <= one <= Operation.IDEMPOTENT_WRITE
    }


def test_500_users_with_10_entries_each_are_well_below_the_limit() -> None:
    users = tuple(
        ListedUser(
            name=f"user-{number}",
            principal=f"User:user-{number}",
            acls=(ENTRY,) * 10,
            quotas=Quotas(producer_byte_rate=1_000_000, controller_mutation_rate=0.5),
        )
        for number in range(500)
    )
    access = AccessList(metadata=Metadata(name="c1"), spec=AccessListSpec(users=users))
    manifest = access.to_manifest()

    assert AccessList.from_manifest(manifest) == access
    assert len(json.dumps(manifest, separators=(",", ":"))) < 0.9 * MAX_ACCESS_LIST_BYTES
