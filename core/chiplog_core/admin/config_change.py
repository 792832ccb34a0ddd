"""Changes to a topic's configuration, as an admin client asks for them.

A change is worked out against the configuration in force when its turn comes, not against
what the client or a handler saw before: two clients that set different keys both succeed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.config.value_types import ConfigType


class Change(IntEnum):
    """Kafka's numbers of incremental changes (KIP-339)."""

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


def _changed_list(config: TopicConfig, wanted: ConfigChange) -> str:
    """The new value of a list, after an APPEND or a SUBTRACT. Raises `ValueError`."""
    key = TOPIC_KEYS.get(wanted.name)
    if key is None or key.value_type.type is not ConfigType.LIST:
        raise ValueError(f"{wanted.name} is not a list: APPEND and SUBTRACT work only on lists")
    items = [item for item in config.entry(key).value.split(",") if item]
    changed = [item.strip() for item in wanted.value.split(",")]
    if wanted.change is Change.APPEND:
        items += [item for item in changed if item not in items]
    else:
        items = [item for item in items if item not in changed]
    return ",".join(items)
