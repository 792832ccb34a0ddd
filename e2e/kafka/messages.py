"""Kafka's messages in any version: requests from values by name, answers by kio's own reader."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from kio.serial import entity_reader

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec.schema import (
    Shape,
    defaults,
    request_class,
    response_class,
    shapes,
)


def request(key: ApiKey, version: int, values: Mapping[str, Any]) -> object:
    """kio's dataclass. What this version does not know is left out, the rest has its default."""
    return made(request_class(key, version), values)


def made(message_class: Any, values: Mapping[str, Any]) -> object:
    """Structures are given as mappings, arrays as sequences, times in milliseconds."""
    fields, known = _plan(message_class)
    given = {name: _value(known[name], one) for name, one in values.items() if name in known}
    return message_class(**{**fields, **given})


def response(key: ApiKey, version: int, body: memoryview) -> Any:
    """kio's dataclass. `decoded` of `chiplog_wire` reads neither records nor timestamps."""
    answer, _ = _reader(key, version)(bytes(body), 0)
    return answer


@cache
def _reader(key: ApiKey, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(response_class(key, version))


@cache
def _plan(message_class: Any) -> tuple[dict[str, object], dict[str, Shape]]:
    return defaults(message_class), shapes(message_class)


def _value(shape: Shape, given: Any) -> object:
    if given is None:
        return None
    if shape.is_array:
        return tuple(_element(shape, one) for one in given)
    return _element(shape, given)


def _element(shape: Shape, given: Any) -> object:
    if not isinstance(shape.element, str):
        return made(shape.element, given)
    return timedelta(milliseconds=given) if shape.element == "timedelta_i32" else given
