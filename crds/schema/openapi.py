"""From the declared shape of a field to its OpenAPI schema.

The schemas are structural, as Kubernetes requires. Every text, list and map has a maximum size: the
API server refuses a validation rule whose worst case is too expensive.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import singledispatch
from typing import Any, TypeAlias

from chiplog_core.ids import MAX_INT32, MAX_INT64, MIN_INT64
from chiplog_core.limits import MAX_CONFIG_ENTRIES
from chiplog_core.manifest.constraints import Pattern
from chiplog_core.manifest.shapes import (
    BooleanShape,
    ChoiceShape,
    ConfigShape,
    FieldShape,
    IntegerShape,
    ListShape,
    MapShape,
    NumberShape,
    ObjectShape,
    QuantityShape,
    Shape,
    TextShape,
    TimeShape,
    ValueShape,
)
from chiplog_core.quantities import MAX_QUANTITY_LENGTH, QUANTITY_PATTERN
from crds.schema.kafka_config import config_schema
from crds.schema.rules import Rule

Schema: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audience:
    """Who writes the fields, which decides how much the schema explains."""

    defaults: bool
    """The API server adds defaults. Programs omit fields with defaults to keep objects small."""

    explained_patterns: bool
    """A text of the wrong form is refused with a sentence, by a rule. A pattern would only show its
    regular expression."""

    merged_lists: bool
    """Lists are merged item by item, so that several people can each own some of them. The API
    server then tracks an owner for every field of every item, which made writing the map of a
    topic with 2,000 partitions three times slower: not for lists that one program writes."""


USERS = Audience(defaults=True, explained_patterns=True, merged_lists=True)
PROGRAMS = Audience(defaults=False, explained_patterns=False, merged_lists=False)


@singledispatch
def schema_of(shape: Shape, audience: Audience) -> Schema:
    """The OpenAPI schema of a shape (a declared type) for an audience: users or programs."""
    raise TypeError(f"no schema for {shape}")


@schema_of.register
def _boolean(_shape: BooleanShape, _audience: Audience) -> Schema:
    return {"type": "boolean"}


@schema_of.register
def _integer(shape: IntegerShape, _audience: Audience) -> Schema:
    """The schema of a whole number."""
    fits = shape.maximum <= MAX_INT32 and shape.minimum >= -MAX_INT32
    schema: Schema = {"type": "integer", "format": "int32" if fits else "int64"}
    # The API server keeps bounds as floats, and the ends of int64 overflow there; the format
    # already says as much.
    if shape.minimum > MIN_INT64:
        schema["minimum"] = shape.minimum
    if shape.maximum < MAX_INT64:
        schema["maximum"] = shape.maximum
    return schema


@schema_of.register
def _number(shape: NumberShape, _audience: Audience) -> Schema:
    """The schema of a number."""
    return {"type": "number", "minimum": shape.minimum, "maximum": shape.maximum}


@schema_of.register
def _text(shape: TextShape, audience: Audience) -> Schema:
    """The schema of a string."""
    schema: Schema = {"type": "string"}
    if shape.min_length:
        schema["minLength"] = shape.min_length
    schema["maxLength"] = shape.max_length
    if shape.pattern is not None:
        schema |= _pattern(shape.pattern, audience)
    return schema


@schema_of.register
def _value(shape: ValueShape, audience: Audience) -> Schema:
    """The schema of a value that is written as a string, like a duration."""
    return {
        "type": "string",
        "maxLength": shape.type.MAX_TEXT_LENGTH,
        **_pattern(shape.pattern, audience),
    }


def _pattern(pattern: Pattern, audience: Audience) -> Schema:
    """The part of a text's schema that checks its form: a rule with a message, or a pattern."""
    anchored = f"^({pattern.regex})$"
    if not audience.explained_patterns:
        return {"pattern": anchored}
    rule = Rule(f"self.matches(r'{anchored}')", f"must be {pattern.meaning}")
    return {"x-kubernetes-validations": [rule.to_manifest()]}


@schema_of.register
def _quantity(_shape: QuantityShape, _audience: Audience) -> Schema:
    """The schema of a Kubernetes quantity, which may also be a plain number."""
    return {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": MAX_QUANTITY_LENGTH,
        "pattern": f"^{QUANTITY_PATTERN}$",
    }


@schema_of.register
def _choice(shape: ChoiceShape, _audience: Audience) -> Schema:
    return {"type": "string", "enum": [choice.value for choice in shape.type]}


@schema_of.register
def _time(_shape: TimeShape, _audience: Audience) -> Schema:
    return {"type": "string", "format": "date-time"}


@schema_of.register
def _list(shape: ListShape, audience: Audience) -> Schema:
    """The schema of a list. Its list type decides whether several field managers can each own some
    of its items: by a key (`map`), by value (`set`), or not (`atomic`)."""
    items = shape.items
    # `kubectl apply` compares a list of a custom resource as a whole. With defaults in its items,
    # the same manifest applied again would be a change.
    item = schema_of(shape.item, replace(audience, defaults=False))
    schema: Schema = {"type": "array", "items": item}
    if items.minimum:
        schema["minItems"] = items.minimum
    schema["maxItems"] = items.maximum
    if items.key and (audience.merged_lists or items.shared):
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(items.key)
    elif items.unique and audience.merged_lists and not items.ordered:
        schema["x-kubernetes-list-type"] = "set"
    else:
        schema["x-kubernetes-list-type"] = "atomic"
    if items.unique and items.ordered and audience.explained_patterns:
        rule = Rule("self.all(x, self.exists_one(y, x == y))", "must not contain duplicates")
        schema["x-kubernetes-validations"] = [rule.to_manifest()]
    return schema


@schema_of.register
def _map(shape: MapShape, audience: Audience) -> Schema:
    """The schema of a map from strings to values."""
    return {
        "type": "object",
        "additionalProperties": schema_of(shape.value, audience),
        "maxProperties": shape.entries.maximum,
    }


@schema_of.register
def _config(shape: ConfigShape, _audience: Audience) -> Schema:
    return config_schema(shape.table, MAX_CONFIG_ENTRIES)


@schema_of.register
def _object(shape: ObjectShape, audience: Audience) -> Schema:
    """The schema of an object with its fields."""
    schema: Schema = {
        "type": "object",
        "description": shape.description,
        "properties": {field.name: _field(field, audience) for field in shape.fields},
    }
    required = [field.name for field in shape.fields if field.required]
    if required:
        schema["required"] = required
    return schema


def _field(field: FieldShape, audience: Audience) -> Schema:
    """The schema of a field. Its own description replaces that of its type."""
    schema = {"description": field.description, **schema_of(field.shape, audience)}
    if field.description:
        schema["description"] = field.description
    if audience.defaults and _is_plain(field.default):
        schema["default"] = _plain(field.default)
    return schema


def _is_plain(default: object) -> bool:
    """Whether the API server is to add a default: only single values, and no empty text."""
    return isinstance(default, bool | int | str) and default != ""


def _plain(default: object) -> object:
    """The default as JSON."""
    return default.value if isinstance(default, StrEnum) else default
