"""The reference page of a kind: each field with type, default and meaning, and the rules.

Read from the definition that the API server gets, so the page says what is enforced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chiplog_core.naming import api
from crds.schema.definition import Definition
from docs.tables import table, text_of

Schema = Mapping[str, Any]

LISTS: Final = "[]"
MAPS: Final = ".*"
CONFIG_MARK: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Field:
    """One field, with its path below `spec` or `status`."""

    path: str
    schema: Schema
    required: bool


def page(definition: Definition) -> str:
    """The whole page in Markdown."""
    kind, schema = definition.model.KIND, definition.schema()
    header = (
        f"`apiVersion: {api.GROUP}/{api.VERSION}`, `kind: {kind.kind}`; for kubectl "
        f"`{kind.plural}` or `{kind.short_name}`. Generated from the definition that the API "
        "server checks by.\n"
    )
    parts = [f"# {kind.kind}\n", f"{schema['description']}\n", header]
    parts += _fields("spec", schema["properties"]["spec"])
    if "status" in schema["properties"]:
        parts += _fields("status", schema["properties"]["status"])
    parts += _columns(definition)
    parts += _rules(schema)
    return "\n".join(parts)


def fields(schema: Schema, path: str = "") -> Iterator[Field]:
    """Every field below a schema, an object before what it holds; configuration is one field."""
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield Field(below, one, name in required)
        if not is_config(one):
            yield from fields(*_inner(one, below))


def is_config(schema: Schema) -> bool:
    """Whether it is a map of Kafka's configuration keys."""
    return schema.get("type") == "object" and CONFIG_MARK in schema


def _inner(schema: Schema, path: str) -> tuple[Schema, str]:
    """What a field holds, and the path to it: items of a list, values of a map."""
    if "items" in schema:
        return _inner(schema["items"], path + LISTS)
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return _inner(values, path + MAPS)
    return schema, path


def type_of(schema: Schema) -> str:
    """What may be written, in a few words."""
    if "items" in schema:
        return f"list of {type_of(schema['items'])}"
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"map of {type_of(values)}"
    if "enum" in schema:
        return ", ".join(f"`{text_of(one)}`" for one in _words(schema["enum"]))
    return _plain_type(schema)


def _plain_type(schema: Schema) -> str:
    match schema:
        case {"x-kubernetes-int-or-string": True, "minimum": _}:
            return f"integer{_range(schema)}"
        case {"x-kubernetes-int-or-string": True}:
            return "quantity or integer"
        case {"format": "date-time"}:
            return "time"
        case {"type": "string"}:
            return "text" + (f", at most {schema['maxLength']:,}" if "maxLength" in schema else "")
        case _:
            plain = "configuration" if is_config(schema) else str(schema.get("type", "number"))
            return plain + _range(schema)


def _words(choices: Sequence[object]) -> list[object]:
    """Without the texts that stand for `true` and `false`."""
    has_booleans = any(isinstance(one, bool) for one in choices)
    return [one for one in choices if not (has_booleans and isinstance(one, str))]


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low:,} to {high:,}"
    if low is not None:
        return f" from {low:,}"
    return f" up to {high:,}" if high is not None else ""


def default_of(field: Field) -> str:
    if field.required:
        return "required"
    return f"`{text_of(field.schema['default'])}`" if "default" in field.schema else ""


def _fields(part: str, schema: Schema) -> Iterator[str]:
    found = list(fields(schema))
    yield f"## {part}\n"
    yield f"{schema.get('description', '')}\n"
    rows = [
        (f"`{one.path}`", type_of(one.schema), default_of(one), _meaning(one.schema))
        for one in found
    ]
    yield table(("Field", "Type", "Default", "Meaning"), rows)
    for one in found:
        if is_config(one.schema):
            yield f"### {part}.{one.path}\n"
            yield from _config(one.schema)


def _config(schema: Schema) -> Iterator[str]:
    """The keys there are; each says its own default."""
    keys = [
        (f"`{name}`", type_of(one), one["description"])
        for name, one in schema["properties"].items()
    ]
    yield table(("Key", "Values", "Meaning"), keys)


def _meaning(schema: Schema) -> str:
    """The description, and what is said of a value of the wrong form."""
    said = [schema.get("description", "")]
    inner, _ = _inner(schema, "")
    own = _own_rules(schema) + ([] if inner is schema else _own_rules(inner))
    said += [_sentence(rule["message"]) for rule in own]
    return " ".join(one for one in said if one)


def _own_rules(schema: Schema) -> list[Mapping[str, str]]:
    """Rules about this very value, which stand in its row and not among the rules of the page."""
    return [rule for rule in schema.get(RULES, ()) if _is_own(rule)]


def _is_own(rule: Mapping[str, str]) -> bool:
    return rule["message"].startswith("must ")


def _sentence(message: str) -> str:
    return message[0].upper() + message[1:] + "."


def _columns(definition: Definition) -> Iterator[str]:
    yield "## Columns\n"
    yield f"What `kubectl get {definition.model.KIND.short_name}` prints.\n"
    rows = [
        (one.name.upper(), one.description + (" Only with `-o wide`." if one.wide else ""))
        for one in definition.columns
    ]
    yield table(("Column", "Meaning"), rows)


def rules(schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Every rule between fields: where it stands, and what is said to whoever breaks it."""
    for rule in schema.get(RULES, ()):
        if not _is_own(rule):
            yield path + rule.get("fieldPath", "") or ".", rule["message"]
    if is_config(schema):
        return
    for name, one in schema.get("properties", {}).items():
        inner, below = _inner(one, f"{path}.{name}")
        if inner is not one:  # rules of the list itself
            yield from rules({RULES: one.get(RULES, ())}, f"{path}.{name}")
        yield from rules(inner, below)


def _rules(schema: Schema) -> Iterator[str]:
    found = list(rules(schema))
    if not found:
        return
    yield "## Rules\n"
    yield "What the API server refuses, and what it says.\n"
    rows = [(f"`{path.lstrip('.') or 'object'}`", message) for path, message in found]
    yield table(("Field", "Message"), rows)
