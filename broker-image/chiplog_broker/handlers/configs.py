"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

Topics are changed through the metadata store. A broker's configuration comes from its file
(standalone) or its BrokerCluster (Kubernetes). A client can change only its replication throttles.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from chiplog_broker.handlers.config_entries import (
    Described,
    broker_entries,
    config_source,
    topic_entries,
)
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.call import Call
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureBroker, ConfigureTopic
from chiplog_core.admin.topic_names import code_of_unknown
from chiplog_core.config.value_types import ConfigType
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode


class ResourceType(IntEnum):
    """Kafka's numbers of resource types."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


TYPES = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}
NO_SUCH_TOPIC = Outcome(
    ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
)
TWICE = Outcome(
    ErrorCode.invalid_request,
    "the request contains this resource more than once, so nothing was done: name it once",
)
BROKER_IS_FIXED = Outcome(
    ErrorCode.policy_violation,
    "clients can change only the replication throttles of single brokers, with "
    "IncrementalAlterConfigs: change server.properties (standalone) or the BrokerCluster "
    "(Kubernetes)",
)


class ConfigHandlers:
    """Describes and changes configuration."""

    def __init__(
        self,
        cluster: ClusterView,
        store: MetadataStore,
        broker_config: Mapping[str, str],
        long_work: LongWork,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._broker_config = broker_config
        self._long_work = long_work

    async def describe_configs(self, call: Call[Any]) -> object:
        """The configuration of each requested resource, of all its keys or of the requested
        ones."""
        types = answers(ApiKey.DESCRIBE_CONFIGS)
        request = call.message
        results, slices = [], self._long_work.slices()
        # Each resource once: its name takes a few bytes, its answer thousands.
        for resource in dict.fromkeys(request.resources):
            await slices.pause()
            code, message, entries = self._entries(resource)
            wanted = resource.configuration_keys
            results.append(
                types.DescribeConfigsResult(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=tuple(
                        described(types, request, entry)
                        for entry in entries
                        if not wanted or entry.key.name in wanted
                    ),
                )
            )
        return types.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))

    def _entries(self, resource: Any) -> tuple[ErrorCode, str | None, list[Described]]:
        """An error code with its message, and the configuration of one resource."""
        match resource.resource_type:
            case ResourceType.TOPIC:
                view = self._cluster.topic(resource.resource_name)
                if view is None:
                    code = ErrorCode(code_of_unknown(resource.resource_name))
                    return code, NO_SUCH_TOPIC.message, []
                return ErrorCode.none, None, topic_entries(view.config, view.replication_factor)
            case ResourceType.BROKER if resource.resource_name == str(self._cluster.broker_id):
                return ErrorCode.none, None, broker_entries(self._broker_config)
            case ResourceType.BROKER if resource.resource_name:
                return ErrorCode.invalid_request, self._another_broker(resource.resource_name), []
            case kind if kind in tuple(ResourceType):
                # Resources of these types have no configuration here. A broker with an empty name
                # means the dynamic defaults of all brokers, of which there are none.
                return ErrorCode.none, None, []
            case _:
                message = f"unknown resource type {resource.resource_type}"
                return ErrorCode.invalid_request, message, []

    async def incremental_alter_configs(self, call: Call[Any]) -> object:
        """Set, delete, append to or subtract from single values."""
        return await self._alter(call, ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_change)

    async def alter_configs(self, call: Call[Any]) -> object:
        """Replace a topic's whole configuration, as older tools do."""
        return await self._alter(call, ApiKey.ALTER_CONFIGS, new_value)

    async def _alter(
        self, call: Call[Any], key: ApiKey, change: Callable[[Any], ConfigChange]
    ) -> object:
        """Change the configuration of each resource in the request; one that occurs twice is
        refused.

        `change` makes a `ConfigChange` from one entry of a resource.
        """
        types = answers(key)
        # `AlterConfigsResponse` or `IncrementalAlterConfigsResponse`
        response = getattr(types, key.name.title().replace("_", "") + "Response")
        resources = call.message.resources
        times = Counter((item.resource_type, item.resource_name) for item in resources)
        named = {(item.resource_type, item.resource_name): item for item in resources}
        results = []
        for (kind, name), resource in named.items():
            outcome = TWICE
            if times[kind, name] == 1:
                outcome = await self._alter_one(resource, key, change, call)
            results.append(
                types.AlterConfigsResourceResponse(
                    error_code=outcome.code,
                    error_message=outcome.message,
                    resource_type=kind,
                    resource_name=name,
                )
            )
        return response(throttle_time=NO_THROTTLE, responses=tuple(results))

    async def _alter_one(
        self,
        resource: Any,
        key: ApiKey,
        change: Callable[[Any], ConfigChange],
        call: Call[Any],
    ) -> Outcome:
        """Change the configuration of one resource: a topic, or this broker."""
        is_broker = resource.resource_type == ResourceType.BROKER
        if refused := self._refused(resource, key):
            return refused
        try:
            changes = tuple(map(change, resource.configs))
        except ValueError as error:
            return Outcome(ErrorCode.invalid_request, str(error))
        validate_only = call.message.validate_only
        operation: ConfigureTopic | ConfigureBroker = ConfigureTopic(
            name=resource.resource_name,
            changes=changes,
            replace=key is ApiKey.ALTER_CONFIGS,
            validate_only=validate_only,
        )
        if is_broker:
            operation = ConfigureBroker(
                broker_id=self._cluster.broker_id, changes=changes, validate_only=validate_only
            )
        return await self._store.submit(operation, call.peer.principal)

    def _refused(self, resource: Any, key: ApiKey) -> Outcome | None:
        """Why a resource cannot be changed with this request, whatever the values; None if it
        can."""
        name = resource.resource_name
        if resource.resource_type == ResourceType.BROKER:
            if key is ApiKey.ALTER_CONFIGS or not name:
                return BROKER_IS_FIXED
            if name != str(self._cluster.broker_id):
                return Outcome(ErrorCode.invalid_request, self._another_broker(name))
        elif resource.resource_type != ResourceType.TOPIC:
            return Outcome(
                ErrorCode.invalid_request,
                "clients can change only the configuration of topics and brokers",
            )
        keys = [config.name for config in resource.configs]
        if len(keys) != len(set(keys)):
            message = f"a configuration key of {name} is given more than once: give each key once"
            return Outcome(ErrorCode.invalid_request, message)
        return None

    def _another_broker(self, name: str) -> str:
        """The error message for a request that names another broker."""
        return (
            f"this is broker {self._cluster.broker_id}: ask broker {name} for its own configuration"
        )

    def list_config_resources(self, call: Call[Any]) -> object:
        """The resources with a configuration: topics and brokers (KIP-1142)."""
        types = answers(ApiKey.LIST_CONFIG_RESOURCES)
        # Version 0 was ListClientMetricsResources (KIP-1000).
        all_types = set(ResourceType) if call.header.version > 0 else {ResourceType.CLIENT_METRICS}
        wanted = set(call.message.resource_types) or all_types
        if not wanted <= set(ResourceType):
            return types.ListConfigResourcesResponse(
                throttle_time=NO_THROTTLE,
                error_code=ErrorCode.unsupported_version,
                config_resources=(),
            )
        names = {
            ResourceType.TOPIC: [view.name for view in self._cluster],
            ResourceType.BROKER: [str(broker_id) for broker_id in self._cluster.brokers],
        }
        return types.ListConfigResourcesResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            config_resources=tuple(
                types.ConfigResource(resource_name=name, resource_type=int(kind))
                for kind, found in names.items()
                if kind in wanted
                for name in found
            ),
        )


def described(types: Any, request: Any, entry: Described) -> object:
    """One key of a DescribeConfigs answer, with synonyms and documentation if they are
    requested."""
    synonyms = entry.synonyms if request.include_synonyms else ()
    return types.DescribeConfigsResourceResult(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=tuple(
            types.DescribeConfigsSynonym(
                name=synonym.set_by, value=synonym.value, source=config_source(synonym.source)
            )
            for synonym in synonyms
        ),
        config_type=TYPES[entry.key.value_type.type],
        documentation=entry.key.doc if request.include_documentation else None,
    )


def incremental_change(config: Any) -> ConfigChange:
    """The change that an entry of IncrementalAlterConfigs requests. Raises `ValueError`."""
    change = Change(config.config_operation)
    if change is Change.DELETE:
        return ConfigChange(change, config.name)
    return ConfigChange(change, config.name, given_value(config))


def new_value(config: Any) -> ConfigChange:
    """The change that an entry of AlterConfigs requests: to set a value. Raises `ValueError`."""
    return ConfigChange(Change.SET, config.name, given_value(config))


def given_value(config: Any) -> str:
    """The value of an entry, which must not be null. Raises `ValueError`."""
    if config.value is None:
        raise ValueError(f"Null value not supported for : {config.name}")
    return str(config.value)
