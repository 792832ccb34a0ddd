"""Conversion of the program's values to a manifest, ready for JSON.

A field with its default value is left out, so that manifests contain only what was set, and the
PartitionMap of 2,000 partitions stays small. Reading a written manifest returns an equal value.
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import singledispatch
from typing import Any

from chiplog_core.manifest.shapes import (
    ChoiceShape,
    ListShape,
    MapShape,
    ObjectShape,
    Shape,
    TimeShape,
    ValueShape,
    object_shape,
)


def write(value: Any) -> dict[str, Any]:
    """The manifest of a dataclass."""
    return _write_object(object_shape(type(value)), value)


@singledispatch
def _written(_shape: Shape, value: Any) -> Any:
    """The manifest's form of a value. Numbers and texts are the same in JSON."""
    return value


@_written.register
def _choice(_shape: ChoiceShape, value: StrEnum) -> str:
    return value.value


@_written.register
def _value(_shape: ValueShape, value: Any) -> str:
    return str(value)


@_written.register
def _time(_shape: TimeShape, value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


@_written.register
def _list(shape: ListShape, value: tuple[Any, ...]) -> list[Any]:
    return [_written(shape.item, item) for item in value]


@_written.register
def _map(shape: MapShape, value: Any) -> dict[str, Any]:
    return {name: _written(shape.value, entry) for name, entry in value.items()}


@_written.register
def _write_object(shape: ObjectShape, value: Any) -> dict[str, Any]:
    """The object without optional fields that have their default values."""
    manifest = {}
    for field in shape.fields:
        found = getattr(value, field.attribute)
        if field.required or found != field.default:
            manifest[field.name] = _written(field.shape, found)
    return manifest
