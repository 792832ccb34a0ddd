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
    """Every field of a schema, also of objects, lists and maps in it, each after its parent. A map
    of Kafka configuration is a single field. `path` is the path of the schema itself."""
    required = schema.get("required", ())
    for name, field_schema in schema.get("properties", {}).items():
        field_path = f"{path}.{name}" if path else name
        yield Field(field_path, field_schema, name in required)
        if not is_config(field_schema):
            yield from fields(*_inner(field_schema, field_path))


def is_config(schema: Schema) -> bool:
    """Whether the schema is a map of Kafka's configuration keys."""
    return schema.get("type") == "object" and CONFIG_MARK in schema


def _inner(schema: Schema, path: str) -> tuple[Schema, str]:
    """The schema of a list's items or a map's values, at any depth, and the path to it; otherwise
    the schema itself."""
    if "items" in schema:
        return _inner(schema["items"], path + LISTS)
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return _inner(values, path + MAPS)
    return schema, path


def type_of(schema: Schema) -> str:
    """The type of a field's values, in a few words."""
    if "items" in schema:
        return f"list of {type_of(schema['items'])}"
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"map of {type_of(values)}"
    if "enum" in schema:
        return ", ".join(f"`{text_of(choice)}`" for choice in _choices(schema["enum"]))
    return _plain_type(schema)


def _plain_type(schema: Schema) -> str:
    """The type of a schema that is neither a list, a map, nor a choice."""
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


def _choices(choices: Sequence[object]) -> list[object]:
    """The choices, without the texts "true" and "false" beside the booleans."""
    has_booleans = any(isinstance(choice, bool) for choice in choices)
    return [choice for choice in choices if not (has_booleans and isinstance(choice, str))]


def _range(schema: Schema) -> str:
    """The range of a number, after a space; empty if it has none."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low:,} to {high:,}"
    if low is not None:
        return f" from {low:,}"
    return f" up to {high:,}" if high is not None else ""


def default_of(field: Field) -> str:
    """The cell with a field's default, or `required`; empty if it has none."""
    if field.required:
        return "required"
    return f"`{text_of(field.schema['default'])}`" if "default" in field.schema else ""


def _fields(part: str, schema: Schema) -> Iterator[str]:
    """The section of `spec` or `status`, in parts: the table of fields, and one for each map of
    configuration."""
    found = list(fields(schema))
    yield f"## {part}\n"
    yield f"{schema.get('description', '')}\n"
    rows = [
        (f"`{field.path}`", type_of(field.schema), default_of(field), _meaning(field.schema))
        for field in found
    ]
    yield table(("Field", "Type", "Default", "Meaning"), rows)
    for field in found:
        if is_config(field.schema):
            yield f"### {part}.{field.path}\n"
            yield from _config(field.schema)


def _config(schema: Schema) -> Iterator[str]:
    """The table of configuration keys. Their descriptions include the defaults."""
    keys = [
        (f"`{name}`", type_of(key_schema), key_schema["description"])
        for name, key_schema in schema["properties"].items()
    ]
    yield table(("Key", "Values", "Meaning"), keys)


def _meaning(schema: Schema) -> str:
    """The description of a field, followed by the rules for the form of its value."""
    sentences = [schema.get("description", "")]
    inner, _ = _inner(schema, "")
    own = _own_rules(schema) + ([] if inner is schema else _own_rules(inner))
    sentences += [_sentence(rule["message"]) for rule in own]
    return " ".join(sentence for sentence in sentences if sentence)


def _own_rules(schema: Schema) -> list[Mapping[str, str]]:
    """The rules for the form of a single value. They are in the field's row, all others in the
    section "Rules"."""
    return [rule for rule in schema.get(RULES, ()) if _is_own(rule)]


def _is_own(rule: Mapping[str, str]) -> bool:
    """Whether a rule is about the form of a single value: its message begins like this."""
    return rule["message"].startswith("must ")


def _sentence(message: str) -> str:
    return message[0].upper() + message[1:] + "."


def _columns(definition: Definition) -> Iterator[str]:
    """The section about the columns of `kubectl get`, in parts."""
    yield "## Columns\n"
    yield f"What `kubectl get {definition.model.KIND.short_name}` prints.\n"
    rows = [
        (column.name.upper(), column.description + (" Only with `-o wide`." if column.wide else ""))
        for column in definition.columns
    ]
    yield table(("Column", "Meaning"), rows)


def rules(schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Every rule between fields, as the path of the field that it refuses and its message. `path`
    is the path of the schema itself."""
    for rule in schema.get(RULES, ()):
        if not _is_own(rule):
            yield path + rule.get("fieldPath", "") or ".", rule["message"]
    if is_config(schema):
        return
    for name, field_schema in schema.get("properties", {}).items():
        inner, inner_path = _inner(field_schema, f"{path}.{name}")
        if inner is not field_schema:  # rules of the list itself
            yield from rules({RULES: field_schema.get(RULES, ())}, f"{path}.{name}")
        yield from rules(inner, inner_path)


def _rules(schema: Schema) -> Iterator[str]:
    """The section about rules, in parts; nothing if the kind has none."""
    found = list(rules(schema))
    if not found:
        return
    yield "## Rules\n"
    yield "What the API server refuses, and what it says.\n"
    rows = [(f"`{path.lstrip('.') or 'object'}`", message) for path, message in found]
    yield table(("Field", "Message"), rows)
