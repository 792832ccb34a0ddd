"""Kafka's messages as kio's dataclasses describe them.

kio has one module for each message and version. They are imported when the first request of that
version arrives: importing all of them would take longer than everything else at start-up.
"""

import importlib
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from chiplog_wire.protocol.apis import APIS, ApiKey

_ZERO_BY_TYPE: Final[dict[str, object]] = {
    "bool": False,
    "bytes": b"",
    "datetime_i64": datetime.fromtimestamp(0, UTC),
    "error_code": 0,
    "float64": 0.0,
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "string": "",
    "timedelta_i32": timedelta(0),
    "uuid": None,
}


class Shape(NamedTuple):
    """The type of one field of a message."""

    # Kafka's name of a primitive type, or the dataclass of a structure.
    element: str | type[Any]
    is_array: bool
    is_nullable: bool
    tag: int | None


@cache
def request_class(key: ApiKey, version: int) -> type[Any]:
    """The dataclass of a request in one version."""
    return _message_class(key, version, "request")


@cache
def response_class(key: ApiKey, version: int) -> type[Any]:
    """The dataclass of a response in one version."""
    return _message_class(key, version, "response")


def _message_class(key: ApiKey, version: int, kind: str) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{key.name.lower()}.v{version}.{kind}")
    message_class = getattr(module, APIS[key].name + kind.title())
    assert isinstance(message_class, type)
    return message_class


def element(message_class: type[Any], name: str) -> type[Any]:
    """The dataclass of a field's structure, or of its elements if the field is an array."""
    found = shapes(message_class)[name].element
    assert not isinstance(found, str), f"{name} is not a structure or an array of structures"
    return found


def shapes(message_class: type[Any]) -> dict[str, Shape]:
    """The fields of a dataclass by name, in the order in which they are encoded."""
    return {field.name: _shape(field) for field in fields(message_class)}


def defaults(message_class: type[Any]) -> dict[str, object]:
    """The default of each field by name, for messages of versions without this field."""
    return {field.name: _default(field) for field in fields(message_class)}


def _shape(field: Field[Any]) -> Shape:
    """The type of a field, from its annotation and kio's metadata."""
    annotation, is_nullable = _without_none(field.type)
    is_array = get_origin(annotation) is tuple  # kio's arrays are tuples
    if is_array:
        annotation = get_args(annotation)[0]
    is_structure = isinstance(annotation, type) and is_dataclass(annotation)
    element = annotation if is_structure else field.metadata["kafka_type"]
    return Shape(element, is_array, is_nullable, field.metadata.get("tag"))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """An annotation without `| None`, and whether it had that."""
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (inner,) = (part for part in get_args(annotation) if part is not NoneType)
    return inner, True


def _default(field: Field[Any]) -> object:
    """kio's default; without one, Kafka's: null, empty or 0, and defaults within a structure."""
    if field.default is not MISSING:
        return field.default
    shape = _shape(field)
    if shape.is_array:
        return None if shape.is_nullable else ()
    if not isinstance(shape.element, str):
        return None if shape.is_nullable else shape.element(**defaults(shape.element))
    return None if shape.is_nullable else _ZERO_BY_TYPE[shape.element]
