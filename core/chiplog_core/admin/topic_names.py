"""Which names a new topic may have, with the errors for admin clients."""

import re
from collections.abc import Iterable

from chiplog_core.admin.codes import Code
from chiplog_core.topic_name import (
    NAMES_OF_NO_TOPIC,
    TOPIC_NAME_MEANING,
    TOPIC_NAME_PATTERN,
    collision_key,
)


def why_not_a_topic_name(name: str) -> str:
    """Why no topic can have this name; empty if one can."""
    if re.fullmatch(TOPIC_NAME_PATTERN, name) is None or name in NAMES_OF_NO_TOPIC:
        return f"topic name {name!r} is invalid: use {TOPIC_NAME_MEANING}"
    return ""


def colliding_name(name: str, others: Iterable[str]) -> str:
    """The first of `others` that differs from the name only in `.` and `_`; empty if none does.
    Metrics cannot distinguish such topics."""
    key = collision_key(name)
    return next((other for other in others if other != name and collision_key(other) == key), "")


def code_of_unknown(name: str) -> Code:
    """The error code for a topic that does not exist: UNKNOWN_TOPIC_OR_PARTITION, or
    INVALID_TOPIC_EXCEPTION if no topic can have this name."""
    if why_not_a_topic_name(name):
        return Code.INVALID_TOPIC_EXCEPTION
    return Code.UNKNOWN_TOPIC_OR_PARTITION
