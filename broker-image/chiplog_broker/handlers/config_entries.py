"""Configuration for DescribeConfigs: each value, and its synonyms.

Synonyms are in order of priority, as in Kafka: the topic's own value, the broker keys that set its
default, and Kafka's default under the last of those keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chiplog_core.config.broker_keys import BROKER_KEYS, CLIENTS_BROKER_KEYS
from chiplog_core.config.effective import ConfigEntry, ConfigSource, TopicConfig
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.config.value_types import STRING
from chiplog_wire.protocol.apis import KAFKA_VERSION

SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: 1,
    ConfigSource.DYNAMIC_BROKER_CONFIG: 2,
    ConfigSource.STATIC_BROKER_CONFIG: 4,
    ConfigSource.DEFAULT_CONFIG: 5,
}


PROTOCOL_VERSION = ConfigKey(
    name="inter.broker.protocol.version",
    value_type=STRING,
    default=KAFKA_VERSION,
    doc="The Apache Kafka release whose protocol this broker speaks. It cannot be changed; UIs "
    "use it to choose features.",
)
"""Kafka 4 has removed this key. Kafbat's UI still reads it, and replaces a topic's whole
configuration (AlterConfigs) unless it finds at least 2.3 in it."""


@dataclass(frozen=True, slots=True)
class Described:
    """One key of a topic's or broker's configuration, as DescribeConfigs shows it."""

    key: ConfigKey[Any]
    value: str | None
    source: int
    read_only: bool
    synonyms: tuple[ConfigEntry, ...]


def config_source(source: ConfigSource) -> int:
    """Kafka's number for the source of a value."""
    return SOURCES[source]


def topic_entries(config: TopicConfig, replicas: int) -> list[Described]:
    """Every key of a topic; some effective values depend on its number of replicas."""
    found = []
    is_read_only = False
    for key in TOPIC_KEYS.values():
        entry = config.entry_in_force(key, replicas)
        synonyms = topic_synonyms(config, key)
        if synonyms:
            # The first synonym shows the effective value, as the key itself does.
            synonyms[0] = replace(synonyms[0], value=entry.value)
        found.append(
            Described(key, entry.value, config_source(entry.source), is_read_only, tuple(synonyms))
        )
    return found


def topic_synonyms(config: TopicConfig, key: ConfigKey[Any]) -> list[ConfigEntry]:
    """The synonyms of a topic's key, by priority. Each value is in the unit of its own key, like
    hours for `log.retention.hours`."""
    found = []
    if key.name in config.own:
        entry = config.entry(key)
        found.append(entry)
    for synonym in key.synonyms:
        found += broker_synonyms(config.inherited, BROKER_KEYS[synonym.name])
    return found


def broker_entries(config: Mapping[str, str]) -> list[Described]:
    """Every key of a broker, also those that are not set."""
    found = []
    for key in (*BROKER_KEYS.values(), PROTOCOL_VERSION):
        synonyms = tuple(broker_synonyms(config, key))
        value = synonyms[0].value if synonyms else None
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        is_read_only = key.name not in CLIENTS_BROKER_KEYS
        found.append(Described(key, value, config_source(source), is_read_only, synonyms))
    return found


def broker_synonyms(config: Mapping[str, str], key: ConfigKey[Any]) -> list[ConfigEntry]:
    """The synonyms of a broker's key: its own value, and its default."""
    found = []
    if key.name in config:
        is_of_clients = key.name in CLIENTS_BROKER_KEYS
        source = (
            ConfigSource.DYNAMIC_BROKER_CONFIG
            if is_of_clients
            else ConfigSource.STATIC_BROKER_CONFIG
        )
        found.append(ConfigEntry(key.name, config[key.name], source, key.name))
    if key.default is not None:
        default = key.format(key.default)
        found.append(ConfigEntry(key.name, default, ConfigSource.DEFAULT_CONFIG, key.name))
    return found
