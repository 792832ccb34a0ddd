"""The resources of requests about configuration, and the results of those that are denied."""

from typing import Any

from chiplog_broker.handlers.authorized.asking import MESSAGES, Asking
from chiplog_broker.handlers.authorized.items import Needed
from chiplog_broker.handlers.configs import ResourceType as ConfigResource
from chiplog_core.authorizer.acls import CLUSTER_NAME, ResourceType
from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

OF_CLUSTER = frozenset(
    {ConfigResource.BROKER, ConfigResource.BROKER_LOGGER, ConfigResource.CLIENT_METRICS}
)


def configured(_: Asking, resource: Any) -> Needed | None:
    """The resource whose permission is needed to describe or alter a configuration: brokers and
    client metrics belong to the cluster. None for an unknown type."""
    kind = resource.resource_type
    if kind in OF_CLUSTER:
        return ResourceType.CLUSTER, CLUSTER_NAME
    if kind == ConfigResource.TOPIC:
        return ResourceType.TOPIC, resource.resource_name
    if kind == ConfigResource.GROUP:
        return ResourceType.GROUP, resource.resource_name
    return None


def describe_configs(resource: Any, code: ErrorCode) -> object:
    return answers(ApiKey.DESCRIBE_CONFIGS).DescribeConfigsResult(
        error_code=code,
        error_message=MESSAGES[code],
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def alter_configs(resource: Any, code: ErrorCode) -> object:
    return _altered(ApiKey.ALTER_CONFIGS, resource, code)


def incremental_alter_configs(resource: Any, code: ErrorCode) -> object:
    return _altered(ApiKey.INCREMENTAL_ALTER_CONFIGS, resource, code)


def _altered(key: ApiKey, resource: Any, code: ErrorCode) -> object:
    return answers(key).AlterConfigsResourceResponse(
        error_code=code,
        error_message=MESSAGES[code],
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
