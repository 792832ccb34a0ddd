"""What a request changed, for the audit log: each changed resource with the error or `none`.

A request that is only to be validated changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from chiplog_broker.handlers.acls import acl_of, acl_of_match
from chiplog_broker.handlers.configs import ResourceType
from chiplog_broker.security.audit import described
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

Changes: TypeAlias = Callable[[Any, Any], Iterator[tuple[str, ErrorCode]]]
"""Request and answer -> what was changed, and the result."""


def of_topics(field: str) -> Changes:
    """The topics of the answer, which are in this field; a deletion by id may have no name."""

    def changes(request: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
        if getattr(request, "validate_only", False):
            return
        for topic in getattr(answer, field):
            yield f"Topic:{topic.name or topic.topic_id}", topic.error_code

    return changes


def of_configs(request: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    if request.validate_only:
        return
    kinds = {kind.value: kind.name.title() for kind in ResourceType}
    keys = {
        (one.resource_type, one.resource_name): ",".join(config.name for config in one.configs)
        for one in request.resources
    }
    for one in answer.responses:
        kind = kinds.get(one.resource_type, str(one.resource_type))
        changed = keys.get((one.resource_type, one.resource_name), "")
        yield f"{kind}:{one.resource_name} {changed}", one.error_code


def of_groups(_: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    for one in answer.results:
        yield f"Group:{one.group_id}", one.error_code


def of_offsets(request: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    yield f"Group:{request.group_id}", answer.error_code


def of_partitions(topics: str, partitions: str, name: str, index: str) -> Changes:
    """The partitions of the answer, which are in these fields."""

    def changes(_: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
        for topic in getattr(answer, topics):
            for one in getattr(topic, partitions):
                yield f"Topic:{getattr(topic, name)}-{getattr(one, index)}", one.error_code

    return changes


def of_created_acls(request: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    for creation, result in zip(request.creations, answer.results, strict=True):
        if result.error_code is ErrorCode.none:
            yield f"{described(acl_of(creation))}", result.error_code


def of_deleted_acls(_: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    for result in answer.filter_results:
        for acl in result.matching_acls:
            yield f"{described(acl_of_match(acl))}", acl.error_code


def of_users(_: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    for one in answer.results:
        yield f"User:{one.user} credential", one.error_code


def of_quotas(request: Any, answer: Any) -> Iterator[tuple[str, ErrorCode]]:
    if request.validate_only:
        return
    for entry, result in zip(request.entries, answer.entries, strict=True):
        entity = ",".join(
            f"{part.entity_type}:{'<default>' if part.entity_name is None else part.entity_name}"
            for part in entry.entity
        )
        changed = ",".join(operation.key for operation in entry.ops)
        yield f"ClientQuota:{entity} {changed}", result.error_code


CHANGES: Final[Mapping[ApiKey, Changes]] = {
    ApiKey.CREATE_TOPICS: of_topics("topics"),
    ApiKey.DELETE_TOPICS: of_topics("responses"),
    ApiKey.CREATE_PARTITIONS: of_topics("results"),
    ApiKey.ALTER_CONFIGS: of_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: of_configs,
    ApiKey.DELETE_GROUPS: of_groups,
    ApiKey.OFFSET_DELETE: of_offsets,
    ApiKey.DELETE_RECORDS: of_partitions("topics", "partitions", "name", "partition_index"),
    ApiKey.ELECT_LEADERS: of_partitions(
        "replica_election_results", "partition_result", "topic", "partition_id"
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: of_partitions(
        "responses", "partitions", "name", "partition_index"
    ),
    ApiKey.CREATE_ACLS: of_created_acls,
    ApiKey.DELETE_ACLS: of_deleted_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: of_users,
    ApiKey.ALTER_CLIENT_QUOTAS: of_quotas,
}
"""The APIs that change something besides records and the state of groups."""
