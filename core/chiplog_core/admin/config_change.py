"""Changes to a topic's configuration by an admin client.

A change is applied to the configuration that is in force when the change is carried out, not to the
one when the request arrived. So two clients that set different keys at the same time both succeed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.config.value_types import ConfigType


class Change(IntEnum):
    """The kinds of incremental changes, with Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key's change; `value` is empty for DELETE."""

    change: Change
    name: str
    value: str = ""


def changed(config: TopicConfig, changes: Iterable[ConfigChange]) -> dict[str, str]:
    """A topic's own configuration after these changes. Raises `ValueError`."""
    result = dict(config.own)
    for change in changes:
        match change.change:
            case Change.SET:
                result[change.name] = change.value
            case Change.DELETE:
                result.pop(change.name, None)
            case Change.APPEND | Change.SUBTRACT:
                result[change.name] = _changed_list(config, change)
    return result


def _changed_list(config: TopicConfig, change: ConfigChange) -> str:
    """The new value of a list, after an APPEND or a SUBTRACT to the value in force. Raises
    `ValueError`."""
    key = TOPIC_KEYS.get(change.name)
    if key is None or key.value_type.type is not ConfigType.LIST:
        raise ValueError(f"{change.name} is not a list: APPEND and SUBTRACT work only on lists")
    items = [item for item in config.entry(key).value.split(",") if item]
    in_change = [item.strip() for item in change.value.split(",")]
    if change.change is Change.APPEND:
        items += [item for item in in_change if item not in items]
    else:
        items = [item for item in items if item not in in_change]
    return ",".join(items)
