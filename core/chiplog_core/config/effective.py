"""Which configuration is in force, and where each value of a topic comes from.

A topic's own values override the cluster's, and these override the built-in defaults. If the
cluster has several keys for the same default (`log.retention.ms`, `.minutes`, `.hours`), the one
with the smallest unit that is set wins, as in Kafka. DescribeConfigs shows these values.
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
    DYNAMIC_BROKER_CONFIG = "DYNAMIC_BROKER_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"
    DEFAULT_CONFIG = "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The value of one key that is in force, and its source."""

    name: str
    value: str
    source: ConfigSource
    set_by: str
    """The key that holds the value: the topic's own, or the broker key that sets its default."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's whole configuration, in text form. The module `given` has checked the values."""

    own: Mapping[str, str]
    """Topic keys that the topic itself sets."""

    inherited: Mapping[str, str]
    """Broker keys that the cluster sets. Only those that set defaults of topics are used."""

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
        """As `entry`, but for `min.insync.replicas` with the value that brokers enforce for a topic
        with this many replicas (see `min_isr`)."""
        entry = self.entry(key)
        if key is not MIN_INSYNC_REPLICAS:
            return entry
        return replace(entry, value=key.format(min_isr(self, replicas)))


def _in_topic_unit(text: str, synonym: Synonym) -> str:
    """The text of a broker key in the unit of its topic key, for example hours as milliseconds."""
    is_unlimited = text.startswith("-")  # a negative time means "no limit" in every unit
    if synonym.unit == 1 or is_unlimited:
        return text
    return str(int(text) * synonym.unit)


def topic_defaults(broker_config: Mapping[str, str]) -> dict[str, str]:
    """The part of a cluster's configuration that its topics inherit."""
    return {name: value for name, value in broker_config.items() if name in TOPIC_DEFAULTS}


def broker_value(broker_config: Mapping[str, str], key: ConfigKey[V]) -> V | None:
    """The value in force of a broker key; None if it is not set and has no default."""
    assert key.name in BROKER_KEYS, f"{key.name} is not a broker key"
    text = broker_config.get(key.name)
    return key.default if text is None else key.parse(text)


def min_isr(config: TopicConfig, replicas: int) -> int:
    """The number of in-sync replicas that an acks=all write needs, for a topic with this many
    replicas.

    A value that the topic sets itself is used as it is (validation keeps it within `replicas`). A
    value for the whole cluster is meant for topics with enough replicas, so it is lowered to the
    number of replicas if needed. If nobody set a value, it is 2 for topics with three replicas or
    more: then each record is on two brokers, and one of them can be lost without losing records.
    """
    entry = config.entry(MIN_INSYNC_REPLICAS)
    match entry.source:
        case ConfigSource.DYNAMIC_TOPIC_CONFIG:
            return int(entry.value)
        case ConfigSource.STATIC_BROKER_CONFIG:
            return min(int(entry.value), replicas)
        case _:
            return 2 if replicas >= 3 else 1
