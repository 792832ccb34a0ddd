"""What is compared of an answer: its error codes, and what they belong to."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from e2e.security.cases import KNOWN, OWN_TOPIC, OWN_TOPIC_BY_ID

ERRORS: Final = ("error_code", "partition_error_code", "topic_config_error_code")
CODES: Final = (
    *ERRORS,
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
)
NAMES: Final = ("name", "topic", "group_id", "key", "resource_name", "transactional_id")
PARTS: Final = ("partition_index", "partition", "index", "partition_id")
COUNTS: Final = ("num_partitions", "replication_factor")


def shape(answer: Any) -> Any:
    """An answer as JSON. Lists of structures are sorted, as their order has no meaning."""
    found: dict[str, Any] = {}
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name in CODES:
            found[field.name] = int(value)
        elif field.name in (*NAMES, *PARTS, *COUNTS):
            found[field.name] = without_number(value)
        elif field.name == "topic_id" and not is_creation(answer):
            found["has_id"] = value is not None and value.int != 0
        elif field.name == "configs":
            found["has_configs"] = bool(value)
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            elements = [shape(one) for one in value if is_compared(one)]
            elements = [one for one in elements if one]
            if elements:
                found[field.name] = sorted(elements, key=json.dumps)
    return found


def is_creation(answer: Any) -> bool:
    """Whether it is the result of a CreateTopics. With `validate_only` Kafka invents an id."""
    return hasattr(answer, "topic_config_error_code")


def is_compared(element: Any) -> bool:
    """Whether an element has no name, or one that the matrix knows. A client's own topics are seen
    where they are deleted, and by other clients in lists."""
    known = {*KNOWN, OWN_TOPIC, OWN_TOPIC_BY_ID} if is_deletion(element) else KNOWN
    names = [getattr(element, name, None) for name in NAMES]
    return all(without_number(name) in known for name in names if isinstance(name, str))


def is_deletion(element: Any) -> bool:
    return type(element).__name__ == "DeletableTopicResult"


def without_number(value: Any) -> Any:
    """The name of a client's own topic without the number of the client; others as they are."""
    if not isinstance(value, str):
        return value
    return value.rstrip("0123456789") if value.startswith((OWN_TOPIC, OWN_TOPIC_BY_ID)) else value


def codes(shape: Any) -> Iterator[int]:
    """All error codes of a shape."""
    if isinstance(shape, dict):
        for name, value in shape.items():
            if name in ERRORS:
                yield value
            else:
                yield from codes(value)
    elif isinstance(shape, list):
        for one in shape:
            yield from codes(one)
