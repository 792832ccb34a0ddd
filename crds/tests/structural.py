"""A small checker of structural schemas, so that manifests can be judged without a cluster.

It knows what the definitions here use, and nothing of CEL: rules are for the API server. What it
accepts and refuses is held against a real API server by `test_on_api_server`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def violations(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its path."""
    if not _has_type(value, schema):
        yield f"{path}: wrong type"
        return
    yield from _wrong_scalar(value, schema, path)
    if isinstance(value, dict):
        yield from _wrong_object(value, schema, path)
    if isinstance(value, list):
        yield from _wrong_list(value, schema, path)


def _has_type(value: Any, schema: Schema) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    name = schema.get("type")
    if name is None:
        return True
    if isinstance(value, bool):
        return bool(name == "boolean")
    return isinstance(value, _TYPES[name])


def _wrong_scalar(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if "enum" in schema and not any(
        value == choice and type(value) is type(choice) for choice in schema["enum"]
    ):
        yield f"{path}: not one of {schema['enum']}"
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{path}: does not match {schema['pattern']}"
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield f"{path}: wrong length"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: out of range"


def _wrong_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: missing"
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{path}: too many fields"
    properties = schema.get("properties", {})
    is_open = not properties or "x-kubernetes-preserve-unknown-fields" in schema
    for name, field in value.items():
        if name in properties:
            yield from violations(field, properties[name], f"{path}.{name}")
        elif "additionalProperties" in schema:
            yield from violations(field, schema["additionalProperties"], f"{path}.{name}")
        elif not is_open:
            yield f"{path}.{name}: unknown"


def _wrong_list(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
        yield f"{path}: wrong number of items"
    for index, item in enumerate(value):
        yield from violations(item, schema["items"], f"{path}[{index}]")
    keys = schema.get("x-kubernetes-list-map-keys")
    identities = [[item[key] for key in keys] for item in value] if keys else value
    if schema["x-kubernetes-list-type"] != "atomic" and any(
        identity in identities[:index] for index, identity in enumerate(identities)
    ):
        yield f"{path}: an item twice"
