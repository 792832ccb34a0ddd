"""Values of the broker's configuration that always have a default."""

from collections.abc import Mapping
from typing import TypeVar

from chiplog_core.config.effective import broker_value
from chiplog_core.config.key import ConfigKey

V = TypeVar("V")


def setting(config: Mapping[str, str], key: ConfigKey[V]) -> V:
    """The effective value of a key that has a default."""
    value = broker_value(config, key)
    assert value is not None, f"{key.name} has no default"
    return value
