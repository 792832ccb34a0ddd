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
    """A request as kio's dataclass, with the given values by field name.

    Values that this version has no field for are left out; other fields have their defaults.
    """
    return made(request_class(key, version), values)


def made(message_class: Any, values: Mapping[str, Any]) -> object:
    """An instance of kio's dataclass with these values.

    Structures are given as mappings, arrays as sequences, durations in milliseconds.
    """
    default_values, field_shapes = _plan(message_class)
    given = {
        name: _value(field_shapes[name], value)
        for name, value in values.items()
        if name in field_shapes
    }
    return message_class(**{**default_values, **given})


def response(key: ApiKey, version: int, body: memoryview) -> Any:
    """A response's body as kio's dataclass.

    It is read by kio itself: `decoded` of `chiplog_wire` reads neither records nor timestamps.
    """
    answer, _ = _reader(key, version)(bytes(body), 0)
    return answer


@cache
def _reader(key: ApiKey, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(response_class(key, version))


@cache
def _plan(message_class: Any) -> tuple[dict[str, object], dict[str, Shape]]:
    """The default values and the types of a message class's fields, both by field name."""
    return defaults(message_class), shapes(message_class)


def _value(shape: Shape, given: Any) -> object:
    """A field's value as kio has it; None is a null."""
    if given is None:
        return None
    if shape.is_array:
        return tuple(_element(shape, one) for one in given)
    return _element(shape, given)


def _element(shape: Shape, given: Any) -> object:
    """One value of a field, or one element of an array, as kio has it."""
    if not isinstance(shape.element, str):
        return made(shape.element, given)
    return timedelta(milliseconds=given) if shape.element == "timedelta_i32" else given
