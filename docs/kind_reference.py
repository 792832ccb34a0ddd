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
    """Every field below a schema, each object before its own fields.

    `path` is the path of the schema itself. A map of Kafka's configuration keys is one field.
    """
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
    """Schema and path of a list's items or a map's values; for other fields, both as they are."""
    if "items" in schema:
        return _inner(schema["items"], path + LISTS)
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return _inner(values, path + MAPS)
    return schema, path


def type_of(schema: Schema) -> str:
    """The values that a field takes, in a few words for the column "Type"."""
    if "items" in schema:
        return f"list of {type_of(schema['items'])}"
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"map of {type_of(values)}"
    if "enum" in schema:
        return ", ".join(f"`{text_of(one)}`" for one in _words(schema["enum"]))
    return _plain_type(schema)


def _plain_type(schema: Schema) -> str:
    """`type_of` a schema that is no list, no map and no enumeration."""
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
    """The choices of an enumeration as they are shown.

    An enumeration with booleans also allows their texts ("true", "false"); those are left out.
    """
    has_booleans = any(isinstance(one, bool) for one in choices)
    return [one for one in choices if not (has_booleans and isinstance(one, str))]


def _range(schema: Schema) -> str:
    """Limits of a number, with a space before them; empty where it has none."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low:,} to {high:,}"
    if low is not None:
        return f" from {low:,}"
    return f" up to {high:,}" if high is not None else ""


def default_of(field: Field) -> str:
    """The cell of the column "Default"; empty for an optional field without a default."""
    if field.required:
        return "required"
    return f"`{text_of(field.schema['default'])}`" if "default" in field.schema else ""


def _fields(part: str, schema: Schema) -> Iterator[str]:
    """The section about `part` (`spec` or `status`): its fields, then its configuration keys."""
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
    """The table of Kafka's configuration keys; a key's description names its default."""
    keys = [
        (f"`{name}`", type_of(one), one["description"])
        for name, one in schema["properties"].items()
    ]
    yield table(("Key", "Values", "Meaning"), keys)


def _meaning(schema: Schema) -> str:
    """The description, and the messages of the rules about this value or its elements."""
    sentences = [schema.get("description", "")]
    inner, _ = _inner(schema, "")
    own_rules = _own_rules(schema) + ([] if inner is schema else _own_rules(inner))
    sentences += [_sentence(rule["message"]) for rule in own_rules]
    return " ".join(one for one in sentences if one)


def _own_rules(schema: Schema) -> list[Mapping[str, str]]:
    """Rules about this value alone; they are shown in its row and not in the section "Rules"."""
    return [rule for rule in schema.get(RULES, ()) if _is_own(rule)]


def _is_own(rule: Mapping[str, str]) -> bool:
    """By our own convention, the message of a rule about one value begins with "must"."""
    return rule["message"].startswith("must ")


def _sentence(message: str) -> str:
    return message[0].upper() + message[1:] + "."


def _columns(definition: Definition) -> Iterator[str]:
    """The section about the columns of `kubectl get`."""
    yield "## Columns\n"
    yield f"What `kubectl get {definition.model.KIND.short_name}` prints.\n"
    rows = [
        (one.name.upper(), one.description + (" Only with `-o wide`." if one.wide else ""))
        for one in definition.columns
    ]
    yield table(("Column", "Meaning"), rows)


def rules(schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Every rule that is about more than one value: (path of the object or field, message).

    `path` is the path of the schema itself, with a dot before each name.
    """
    for rule in schema.get(RULES, ()):
        if not _is_own(rule):
            yield path + rule.get("fieldPath", "") or ".", rule["message"]
    if is_config(schema):
        return
    for name, one in schema.get("properties", {}).items():
        inner, below = _inner(one, f"{path}.{name}")
        if inner is not one:  # a list or map may have rules, too, beside those of its elements
            yield from rules({RULES: one.get(RULES, ())}, f"{path}.{name}")
        yield from rules(inner, below)


def _rules(schema: Schema) -> Iterator[str]:
    """The section "Rules"; nothing where the kind has none."""
    found = list(rules(schema))
    if not found:
        return
    yield "## Rules\n"
    yield "What the API server refuses, and what it says.\n"
    rows = [(f"`{path.lstrip('.') or 'object'}`", message) for path, message in found]
    yield table(("Field", "Message"), rows)
