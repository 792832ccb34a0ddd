"""Configuration under Kafka's own names: described, changed, replaced.

Topics are changed through the metadata store. A broker's configuration comes from its
file (standalone) or its BrokerCluster (Kubernetes) and cannot be changed by a client.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from chiplog_broker.handlers.call import Call
from chiplog_broker.metadata.operations import ConfigureTopic, Outcome
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.ports.metadata import MetadataStore
from chiplog_broker.protocol.answers import NO_THROTTLE, answers
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_core.config.broker_keys import BROKER_KEYS
from chiplog_core.config.effective import ConfigEntry, ConfigSource
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.config.value_types import ConfigType


class ResourceType(IntEnum):
    """Kafka's numbers of what has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Change(IntEnum):
    """Kafka's numbers of incremental changes (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: 1,
    ConfigSource.STATIC_BROKER_CONFIG: 4,
    ConfigSource.DEFAULT_CONFIG: 5,
}
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
BROKER_IS_FIXED = Outcome(
    ErrorCode.policy_violation,
    "a broker's configuration is changed in its server.properties or its BrokerCluster",
)


def config_source(source: ConfigSource) -> int:
    """Kafka's number of where a value comes from."""
    return SOURCES[source]


class ConfigHandlers:
    """Shows and changes configuration."""

    def __init__(
        self, cluster: ClusterView, store: MetadataStore, broker_config: Mapping[str, str]
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._broker_config = broker_config

    def describe_configs(self, call: Call[Any]) -> object:
        types = answers(ApiKey.DESCRIBE_CONFIGS)
        request = call.message
        results = []
        for resource in request.resources:
            code, message, entries = self._entries(resource)
            wanted = resource.configuration_keys
            results.append(
                types.DescribeConfigsResult(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=tuple(
                        described(types, request, entry, key)
                        for entry, key in entries
                        if not wanted or entry.name in wanted
                    ),
                )
            )
        return types.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))

    def _entries(
        self, resource: Any
    ) -> tuple[ErrorCode, str | None, list[tuple[ConfigEntry, ConfigKey[Any]]]]:
        match resource.resource_type:
            case ResourceType.TOPIC:
                view = self._cluster.topic(resource.resource_name)
                if view is None:
                    return NO_SUCH_TOPIC.code, NO_SUCH_TOPIC.message, []
                found = [(one, TOPIC_KEYS[one.name]) for one in view.config.entries()]
                return ErrorCode.none, None, found
            case ResourceType.BROKER if resource.resource_name in (
                "",
                str(self._cluster.broker_id),
            ):
                # An empty name asks for what all brokers share and was changed: nothing here.
                own = resource.resource_name != ""
                return ErrorCode.none, None, list(self._broker_entries()) if own else []
            case ResourceType.BROKER:
                message = f"this is broker {self._cluster.broker_id}"
                return ErrorCode.invalid_request, message, []
            case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
                return ErrorCode.none, None, []
            case _:
                return ErrorCode.invalid_request, "unknown resource type", []

    def _broker_entries(self) -> Iterable[tuple[ConfigEntry, ConfigKey[Any]]]:
        for name, key in BROKER_KEYS.items():
            if name in self._broker_config:
                source, value = ConfigSource.STATIC_BROKER_CONFIG, self._broker_config[name]
            elif key.default is not None:
                source, value = ConfigSource.DEFAULT_CONFIG, key.format(key.default)
            else:
                continue
            yield ConfigEntry(name, value, source, name), key

    async def incremental_alter_configs(self, call: Call[Any]) -> object:
        """Set, delete, append to or subtract from single values."""
        return await self._alter(call, ApiKey.INCREMENTAL_ALTER_CONFIGS, changed)

    async def alter_configs(self, call: Call[Any]) -> object:
        """Replace a topic's whole configuration, as older tools do."""
        return await self._alter(call, ApiKey.ALTER_CONFIGS, replaced)

    async def _alter(self, call: Call[Any], key: ApiKey, wanted: Any) -> object:
        types = answers(key)
        response = getattr(types, key.name.title().replace("_", "") + "Response")
        results = []
        for resource in call.message.resources:
            outcome = await self._alter_one(resource, wanted, call.message.validate_only)
            results.append(
                types.AlterConfigsResourceResponse(
                    error_code=outcome.code,
                    error_message=outcome.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return response(throttle_time=NO_THROTTLE, responses=tuple(results))

    async def _alter_one(
        self,
        resource: Any,
        wanted: Any,
        validate_only: bool,
    ) -> Outcome:
        if resource.resource_type == ResourceType.BROKER:
            return BROKER_IS_FIXED
        if resource.resource_type != ResourceType.TOPIC:
            return Outcome(ErrorCode.invalid_request, "only topics can be configured")
        view = self._cluster.topic(resource.resource_name)
        if view is None:
            return NO_SUCH_TOPIC
        names = [config.name for config in resource.configs]
        if len(names) != len(set(names)):
            return Outcome(ErrorCode.invalid_request, "a configuration key is given twice")
        try:
            config = wanted(view, resource.configs)
        except ValueError as error:
            return Outcome(ErrorCode.invalid_config, str(error))
        operation = ConfigureTopic(name=view.name, config=config, validate_only=validate_only)
        return await self._store.submit(operation)

    def list_config_resources(self, call: Call[Any]) -> object:
        """What has a configuration: here the topics and the brokers (KIP-1142)."""
        types = answers(ApiKey.LIST_CONFIG_RESOURCES)
        wanted = set(call.message.resource_types) or set(ResourceType)
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


def described(types: Any, request: Any, entry: ConfigEntry, key: ConfigKey[Any]) -> object:
    """One value of a DescribeConfigs answer."""
    synonyms: tuple[object, ...] = ()
    if request.include_synonyms:
        synonym = types.DescribeConfigsSynonym(
            name=entry.set_by, value=entry.value, source=config_source(entry.source)
        )
        synonyms = (synonym,)
    return types.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.name in BROKER_KEYS,
        config_source=config_source(entry.source),
        is_sensitive=False,
        synonyms=synonyms,
        config_type=TYPES[key.value_type.type],
        documentation=key.doc if request.include_documentation else None,
    )


def replaced(_: TopicView, configs: Iterable[Any]) -> dict[str, str]:
    """The configuration that a request spells out in full; null leaves a key to its default."""
    return {config.name: config.value for config in configs if config.value is not None}


def changed(view: TopicView, configs: Iterable[Any]) -> dict[str, str]:
    """The topic's configuration after incremental changes. Raises `ValueError`."""
    result = dict(view.config.own)
    for config in configs:
        name, value = config.name, config.value
        if config.config_operation == Change.DELETE:
            result.pop(name, None)
            continue
        if value is None:
            raise ValueError(f"{name} needs a value")
        if config.config_operation == Change.SET:
            result[name] = value
        else:
            result[name] = changed_list(view, config)
    return result


def changed_list(view: TopicView, config: Any) -> str:
    """A list value with words appended or taken out."""
    key = TOPIC_KEYS.get(config.name)
    if key is None or key.value_type.type is not ConfigType.LIST:
        raise ValueError(f"{config.name} is no list: words cannot be added to it or taken out")
    words = [word for word in view.config.entry(key).value.split(",") if word]
    given = [word.strip() for word in config.value.split(",")]
    if config.config_operation == Change.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    return ",".join(words)
