"""Conversion of an operation to the body of an admin request, and back.

The body is JSON with the field names of Kafka's own request. Kafka's request may have many topics
or users; here it has exactly one, because each is carried out and answered separately. A body with
an unknown field is refused: another version wrote it, and it must not be carried out only in part.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_core.admin import body_shapes as shapes
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import (
    AlterAcls,
    AlterQuotas,
    AlterScram,
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    GrowTopic,
    OperatorRequest,
    PartitionTarget,
    ReassignPartitions,
)
from chiplog_core.ids import LeaderEpoch, PartitionEpoch, PartitionIndex
from chiplog_core.limits import MAX_ADMIN_BODY_LENGTH
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.admin import AdminOperation
from chiplog_core.problems import InvalidManifest

CLUSTER_DEFAULT = -1
"""A number of partitions or replicas in Kafka's requests that stands for the cluster's default."""


def to_body(operation: OperatorRequest) -> tuple[AdminOperation, str]:
    """The kind of Kafka request for the operation, and its body. Raises `Refused` if the body is
    too long."""
    op = _request_of(operation)
    body = json.dumps(write(_FORMS[op].written(operation)), separators=(",", ":"))
    if len(body) > MAX_ADMIN_BODY_LENGTH:
        raise Refused(
            Code.INVALID_REQUEST,
            f"the request has {len(body)} characters as JSON, and the limit is "
            f"{MAX_ADMIN_BODY_LENGTH}: let the cluster place the partitions, or split the request",
        )
    return op, body


def from_body(op: AdminOperation, body: str) -> OperatorRequest:
    """The operation in a request. Raises `Refused`."""
    form = _FORMS[op]
    if len(body) > MAX_ADMIN_BODY_LENGTH:
        raise Refused(
            Code.INVALID_REQUEST,
            f"the request has {len(body)} characters as JSON, and the limit is "
            f"{MAX_ADMIN_BODY_LENGTH}: split the request",
        )
    try:
        found = read(object_shape(form.shape), json.loads(body), "body", Unknown.REFUSE)
    except (InvalidManifest, ValueError, RecursionError) as error:
        raise Refused(Code.INVALID_REQUEST, f"the request cannot be parsed: {error}") from error
    return form.operation(found)


def _request_of(operation: OperatorRequest) -> AdminOperation:
    """The kind of Kafka request for the operation."""
    if isinstance(operation, ConfigureTopic):
        return (
            AdminOperation.ALTER_CONFIGS
            if operation.replace
            else AdminOperation.INCREMENTAL_ALTER_CONFIGS
        )
    if isinstance(operation, AlterAcls):
        return AdminOperation.DELETE_ACLS if operation.is_deletion else AdminOperation.CREATE_ACLS
    return _REQUESTS[type(operation)]


_REQUESTS: Mapping[type[OperatorRequest], AdminOperation] = {
    ConfigureBroker: AdminOperation.INCREMENTAL_ALTER_CONFIGS,
    CreateTopic: AdminOperation.CREATE_TOPICS,
    DeleteTopic: AdminOperation.DELETE_TOPICS,
    GrowTopic: AdminOperation.CREATE_PARTITIONS,
    ElectLeaders: AdminOperation.ELECT_LEADERS,
    ReassignPartitions: AdminOperation.ALTER_PARTITION_REASSIGNMENTS,
    AlterScram: AdminOperation.ALTER_USER_SCRAM_CREDENTIALS,
    AlterQuotas: AdminOperation.ALTER_CLIENT_QUOTAS,
}
"""The kind of Kafka request for each operation that only one kind has."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind of request is written and read."""

    shape: type[Any]
    """The dataclass of the body."""
    written: Callable[[Any], Any]
    """Converts an operation to the body."""
    operation: Callable[[Any], OperatorRequest]
    """Converts the body to an operation."""


def _create_topics(operation: CreateTopic) -> shapes.CreateTopics:
    """The body of a CreateTopics request for the operation."""
    topic = shapes.CreatableTopic(
        name=operation.name,
        num_partitions=_or_default(operation.partitions),
        replication_factor=_or_default(operation.replicas),
        assignments=tuple(
            shapes.PlacedPartition(partition_index=index, broker_ids=brokers)
            for index, brokers in operation.assignments.items()
        ),
        configs=tuple(
            shapes.Config(name=name, value=value) for name, value in operation.config.items()
        ),
    )
    return shapes.CreateTopics(
        topics=(topic,),
        timeout_ms=operation.timeout_ms,
        validate_only=operation.validate_only,
    )


def _create_topic(body: shapes.CreateTopics) -> CreateTopic:
    """The operation in the body of a CreateTopics request."""
    (topic,) = body.topics
    return CreateTopic(
        name=topic.name,
        partitions=_unless_default(topic.num_partitions),
        replicas=_unless_default(topic.replication_factor),
        assignments={
            partition.partition_index: partition.broker_ids for partition in topic.assignments
        },
        config={config.name: config.value for config in topic.configs},
        validate_only=body.validate_only,
        timeout_ms=body.timeout_ms,
    )


def _or_default(count: int | None) -> int:
    """The count for the body: -1 (`CLUSTER_DEFAULT`) if the client gave none."""
    return CLUSTER_DEFAULT if count is None else count


def _unless_default(count: int) -> int | None:
    """The count from the body; None for -1 (`CLUSTER_DEFAULT`)."""
    return None if count == CLUSTER_DEFAULT else count


def _delete_topics(operation: DeleteTopic) -> shapes.DeleteTopics:
    """The body of a DeleteTopics request for the operation."""
    topic = shapes.DeletableTopic(name=operation.name, topic_id=operation.topic_id)
    return shapes.DeleteTopics(topics=(topic,), timeout_ms=operation.timeout_ms)


def _delete_topic(body: shapes.DeleteTopics) -> DeleteTopic:
    """The operation in the body of a DeleteTopics request."""
    (topic,) = body.topics
    return DeleteTopic(name=topic.name, topic_id=topic.topic_id, timeout_ms=body.timeout_ms)


def _create_partitions(operation: GrowTopic) -> shapes.CreatePartitions:
    """The body of a CreatePartitions request for the operation."""
    topic = shapes.GrowingTopic(
        name=operation.name,
        count=operation.partitions,
        assignments=tuple(
            shapes.Placement(broker_ids=broker_ids) for broker_ids in operation.assignments
        ),
    )
    return shapes.CreatePartitions(
        topics=(topic,),
        timeout_ms=operation.timeout_ms,
        validate_only=operation.validate_only,
    )


def _grow_topic(body: shapes.CreatePartitions) -> GrowTopic:
    """The operation in the body of a CreatePartitions request."""
    (topic,) = body.topics
    return GrowTopic(
        name=topic.name,
        partitions=topic.count,
        assignments=tuple(placement.broker_ids for placement in topic.assignments),
        validate_only=body.validate_only,
        timeout_ms=body.timeout_ms,
    )


def _alter_configs(operation: ConfigureTopic) -> shapes.AlterConfigs:
    """The body of an AlterConfigs request, which replaces a topic's whole configuration."""
    assert all(change.change is Change.SET for change in operation.changes)
    resource = shapes.ReplacedResource(
        resource_type=shapes.TOPIC_RESOURCE,
        resource_name=operation.name,
        configs=tuple(
            shapes.Config(name=change.name, value=change.value) for change in operation.changes
        ),
    )
    return shapes.AlterConfigs(resources=(resource,), validate_only=operation.validate_only)


def _replace_configuration(body: shapes.AlterConfigs) -> ConfigureTopic:
    """The operation in the body of an AlterConfigs request."""
    (resource,) = body.resources
    return ConfigureTopic(
        name=resource.resource_name,
        changes=tuple(
            ConfigChange(Change.SET, config.name, config.value) for config in resource.configs
        ),
        replace=True,
        validate_only=body.validate_only,
    )


def _incremental_alter_configs(
    operation: ConfigureTopic | ConfigureBroker,
) -> shapes.IncrementalAlterConfigs:
    """The body of an IncrementalAlterConfigs request for the operation."""
    is_broker = isinstance(operation, ConfigureBroker)
    resource = shapes.ChangedResource(
        resource_type=shapes.BROKER_RESOURCE if is_broker else shapes.TOPIC_RESOURCE,
        resource_name=operation.name,
        configs=tuple(
            shapes.ConfigOperation(
                name=change.name,
                config_operation=int(change.change),
                value=None if change.change is Change.DELETE else change.value,
            )
            for change in operation.changes
        ),
    )
    return shapes.IncrementalAlterConfigs(
        resources=(resource,), validate_only=operation.validate_only
    )


def _change_configuration(
    body: shapes.IncrementalAlterConfigs,
) -> ConfigureTopic | ConfigureBroker:
    """The operation in the body of an IncrementalAlterConfigs request. Raises `Refused`."""
    (resource,) = body.resources
    name, changes = resource.resource_name, tuple(_change(config) for config in resource.configs)
    if resource.resource_type == shapes.TOPIC_RESOURCE:
        return ConfigureTopic(name=name, changes=changes, validate_only=body.validate_only)
    if resource.resource_type != shapes.BROKER_RESOURCE or not name.isdecimal():
        raise Refused(
            Code.INVALID_REQUEST,
            f"resource {name!r} of type {resource.resource_type} is neither a topic nor a broker",
        )
    return ConfigureBroker(broker_id=int(name), changes=changes, validate_only=body.validate_only)


def _change(config: shapes.ConfigOperation) -> ConfigChange:
    """One change of IncrementalAlterConfigs. Raises `Refused`."""
    change = Change(config.config_operation)
    if (config.value is None) != (change is Change.DELETE):
        raise Refused(
            Code.INVALID_REQUEST,
            f"{config.name}: a DELETE must have no value, and SET, APPEND and SUBTRACT need one",
        )
    return ConfigChange(change, config.name, config.value or "")


def _elect_leaders(operation: ElectLeaders) -> shapes.ElectLeaders:
    """The body of an ElectLeaders request for the operation."""
    is_unclean = operation.is_unclean
    topic = shapes.TopicPartitions(
        topic=operation.name,
        topic_id=operation.topic_id,
        partitions=tuple(
            shapes.ElectedPartition(
                partition_index=PartitionIndex(index), leader_epoch=LeaderEpoch(epoch)
            )
            for index, epoch in operation.partitions.items()
        ),
    )
    return shapes.ElectLeaders(
        election_type=shapes.UNCLEAN_ELECTION if is_unclean else shapes.PREFERRED_ELECTION,
        topic_partitions=(topic,),
        timeout_ms=operation.timeout_ms,
    )


def _election(body: shapes.ElectLeaders) -> ElectLeaders:
    """The operation in the body of an ElectLeaders request."""
    (topic,) = body.topic_partitions
    return ElectLeaders(
        name=topic.topic,
        topic_id=topic.topic_id,
        partitions={
            partition.partition_index: partition.leader_epoch for partition in topic.partitions
        },
        is_unclean=body.election_type == shapes.UNCLEAN_ELECTION,
        timeout_ms=body.timeout_ms,
    )


def _alter_reassignments(operation: ReassignPartitions) -> shapes.AlterPartitionReassignments:
    """The body of an AlterPartitionReassignments request for the operation."""
    topic = shapes.ReassignableTopic(
        name=operation.name,
        topic_id=operation.topic_id,
        partitions=tuple(
            shapes.ReassignablePartition(
                partition_index=PartitionIndex(index),
                replicas=target.replicas,
                partition_epoch=PartitionEpoch(target.partition_epoch),
            )
            for index, target in operation.targets.items()
        ),
    )
    return shapes.AlterPartitionReassignments(
        topics=(topic,),
        allow_replication_factor_change=operation.allows_another_count,
        timeout_ms=operation.timeout_ms,
    )


def _reassignment(body: shapes.AlterPartitionReassignments) -> ReassignPartitions:
    """The operation in the body of an AlterPartitionReassignments request."""
    (topic,) = body.topics
    return ReassignPartitions(
        name=topic.name,
        topic_id=topic.topic_id,
        targets={
            partition.partition_index: PartitionTarget(
                replicas=partition.replicas, partition_epoch=partition.partition_epoch
            )
            for partition in topic.partitions
        },
        allows_another_count=body.allow_replication_factor_change,
        timeout_ms=body.timeout_ms,
    )


def _alter_acls(operation: AlterAcls) -> shapes.AlterAcls:
    """The body of a CreateAcls or DeleteAcls request for the operation."""
    return shapes.AlterAcls(
        principal=operation.name, acls=operation.acls, timeout_ms=operation.timeout_ms
    )


def _acls_created(body: shapes.AlterAcls) -> AlterAcls:
    """The operation in the body of a CreateAcls request."""
    return AlterAcls(name=body.principal, acls=body.acls, timeout_ms=body.timeout_ms)


def _acls_deleted(body: shapes.AlterAcls) -> AlterAcls:
    """The operation in the body of a DeleteAcls request."""
    return AlterAcls(
        name=body.principal, acls=body.acls, is_deletion=True, timeout_ms=body.timeout_ms
    )


def _alter_scram(operation: AlterScram) -> shapes.AlterUserScramCredentials:
    """The body of an AlterUserScramCredentials request for the operation."""
    change = shapes.ScramChange(name=operation.username, sealed=operation.sealed)
    return shapes.AlterUserScramCredentials(users=(change,), timeout_ms=operation.timeout_ms)


def _scram_change(body: shapes.AlterUserScramCredentials) -> AlterScram:
    """The operation in the body of an AlterUserScramCredentials request."""
    (change,) = body.users
    return AlterScram(username=change.name, sealed=change.sealed, timeout_ms=body.timeout_ms)


def _alter_quotas(operation: AlterQuotas) -> shapes.AlterClientQuotas:
    """The body of an AlterClientQuotas request for the operation."""
    entry = shapes.QuotaEntry(
        user=operation.username,
        ops=tuple(
            shapes.QuotaOperation(key=quota, value=value)
            for quota, value in operation.values.items()
        ),
    )
    return shapes.AlterClientQuotas(
        entries=(entry,),
        validate_only=operation.validate_only,
        timeout_ms=operation.timeout_ms,
    )


def _quota_change(body: shapes.AlterClientQuotas) -> AlterQuotas:
    """The operation in the body of an AlterClientQuotas request."""
    (entry,) = body.entries
    return AlterQuotas(
        username=entry.user,
        values={change.key: change.value for change in entry.ops},
        validate_only=body.validate_only,
        timeout_ms=body.timeout_ms,
    )


_FORMS: Mapping[AdminOperation, _Form] = {
    AdminOperation.CREATE_TOPICS: _Form(shapes.CreateTopics, _create_topics, _create_topic),
    AdminOperation.DELETE_TOPICS: _Form(shapes.DeleteTopics, _delete_topics, _delete_topic),
    AdminOperation.CREATE_PARTITIONS: _Form(
        shapes.CreatePartitions, _create_partitions, _grow_topic
    ),
    AdminOperation.ALTER_CONFIGS: _Form(
        shapes.AlterConfigs, _alter_configs, _replace_configuration
    ),
    AdminOperation.INCREMENTAL_ALTER_CONFIGS: _Form(
        shapes.IncrementalAlterConfigs, _incremental_alter_configs, _change_configuration
    ),
    AdminOperation.ELECT_LEADERS: _Form(shapes.ElectLeaders, _elect_leaders, _election),
    AdminOperation.ALTER_PARTITION_REASSIGNMENTS: _Form(
        shapes.AlterPartitionReassignments, _alter_reassignments, _reassignment
    ),
    AdminOperation.CREATE_ACLS: _Form(shapes.AlterAcls, _alter_acls, _acls_created),
    AdminOperation.DELETE_ACLS: _Form(shapes.AlterAcls, _alter_acls, _acls_deleted),
    AdminOperation.ALTER_USER_SCRAM_CREDENTIALS: _Form(
        shapes.AlterUserScramCredentials, _alter_scram, _scram_change
    ),
    AdminOperation.ALTER_CLIENT_QUOTAS: _Form(
        shapes.AlterClientQuotas, _alter_quotas, _quota_change
    ),
}
