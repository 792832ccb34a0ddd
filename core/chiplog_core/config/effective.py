"""Which configuration is in force, and where each value of a topic comes from.

The topic's own values win over the cluster's, those over the built-in defaults. Of the cluster's
several keys for one thing (`log.retention.ms`, `.minutes`, `.hours`) the finest one that is set
wins, as in Kafka. DescribeConfigs shows exactly this.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from chiplog_core.config.broker_keys import BROKER_KEYS, TOPIC_DEFAULTS
from chiplog_core.config.key import ConfigKey, Synonym
from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS, TOPIC_KEYS

V = TypeVar("V")


class ConfigSource(Enum):
    """Where a value comes from, in the words of Kafka's DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = "DYNAMIC_TOPIC_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One value in force."""

    name: str
    value: str
    source: ConfigSource
    set_by: str
    """The key that holds the value: the topic's own, or the broker key that sets its default."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's whole configuration, from texts that `given` has checked."""

    own: Mapping[str, str]
    """What the topic itself sets."""

    inherited: Mapping[str, str]
    """What the cluster sets: broker keys, of which those count that topics inherit."""

    def __getitem__(self, key: ConfigKey[V]) -> V:
        return key.parse(self.entry(key).value)

    def entry(self, key: ConfigKey[Any]) -> ConfigEntry:
        """The value of `key` in force, with its source."""
        if key.name in self.own:
            return ConfigEntry(
                key.name, self.own[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG, key.name
            )
        for synonym in key.synonyms:
            if synonym.name in self.inherited:
                value = _in_topic_unit(self.inherited[synonym.name], synonym)
                return ConfigEntry(key.name, value, ConfigSource.STATIC_BROKER_CONFIG, synonym.name)
        return ConfigEntry(key.name, key.format(key.default), ConfigSource.DEFAULT_CONFIG, key.name)

    def entries(self, replicas: int) -> Iterator[ConfigEntry]:
        """Every key of a topic of this many replicas with the value in force."""
        return (self.entry_in_force(key, replicas) for key in TOPIC_KEYS.values())

    def entry_in_force(self, key: ConfigKey[Any], replicas: int) -> ConfigEntry:
        """As `entry`. But for `min.insync.replicas` it is the value that brokers enforce (see
        `min_isr`)."""
        entry = self.entry(key)
        if key is not MIN_INSYNC_REPLICAS:
            return entry
        return replace(entry, value=key.format(min_isr(self, replicas)))


def _in_topic_unit(text: str, synonym: Synonym) -> str:
    """The text of a broker key in the unit of its topic key, for example hours as milliseconds."""
    # A negative time means "no limit" in every unit.
    return text if synonym.unit == 1 or text.startswith("-") else str(int(text) * synonym.unit)


def topic_defaults(broker_config: Mapping[str, str]) -> dict[str, str]:
    """The part of a cluster's configuration that its topics inherit."""
    return {name: value for name, value in broker_config.items() if name in TOPIC_DEFAULTS}


def broker_value(broker_config: Mapping[str, str], key: ConfigKey[V]) -> V | None:
    """The value of a broker key in force; None if nobody set it and it has no default."""
    assert key.name in BROKER_KEYS, f"{key.name} is not a broker key"
    text = broker_config.get(key.name)
    return key.default if text is None else key.parse(text)


def min_isr(config: TopicConfig, replicas: int) -> int:
    """The number of in-sync replicas that an acks=all write needs, for a topic with this many
    replicas.

    A value that the topic sets itself is used as it is (validation keeps it within `replicas`). A
    value for the whole cluster is meant for topics with enough replicas, so it is lowered to the
    number of replicas if needed. If nobody set a value, it is 2 for topics with three replicas or
    more: then one of the two can be lost without losing records.
    """
    entry = config.entry(MIN_INSYNC_REPLICAS)
    match entry.source:
        case ConfigSource.DYNAMIC_TOPIC_CONFIG:
            return int(entry.value)
        case ConfigSource.STATIC_BROKER_CONFIG:
            return min(int(entry.value), replicas)
        case _:
            return 2 if replicas >= 3 else 1
