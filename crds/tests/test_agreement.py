"""What a definition accepts the program reads, and what the program writes the definition takes.

Manifests are drawn at random from the schemas, which knows nothing of how the schemas were made.
"""

import string
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_core.ids import MAX_INT64, MIN_INT64
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import InvalidManifest, Problem
from crds.schema.definition import Definition
from crds.schema.kinds import DEFINITIONS
from crds.tests.structural import violations

KINDS = [pytest.param(definition, id=definition.model.KIND.kind) for definition in DEFINITIONS]
BEYOND_A_SCHEMA = ("twice", "the same", "reserved", "out of range")
"""Uniqueness in lists that are not merged by key, the two ids that Kafka reserves, and numbers
inside a text."""

Schema = dict[str, Any]


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that fit a schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        least = schema.get("minimum", 0)
        return st.integers(least, schema.get("maximum", least + 100))
    return _STRATEGIES[schema.get("type", "number")](schema)


def _objects(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    properties = schema.get("properties", {})
    if not properties:
        names = st.text(string.ascii_lowercase, min_size=1, max_size=5)
        return st.dictionaries(names, values(schema.get("additionalProperties", {})), max_size=2)
    fields = {name: values(field) for name, field in properties.items()}
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: field for name, field in fields.items() if name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    )


def _lists(schema: Schema) -> st.SearchStrategy[list[Any]]:
    return st.lists(values(schema["items"]), min_size=schema.get("minItems", 0), max_size=2)


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.just("2026-01-31T12:00:00Z")
    least, most = schema.get("minLength", 0), schema.get("maxLength", 100)
    return _matching(_pattern(schema)).filter(lambda text: least <= len(text) <= most)


def _pattern(schema: Schema) -> str:
    """The pattern of a text, which for users' fields stands in a rule."""
    before, after = "self.matches(r'^", "$')"
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"].startswith(before):
            return str(rule["rule"]).removeprefix(before).removesuffix(after)
    return str(schema.get("pattern", "^[a-z0-9]{1,8}$"))[1:-1]


@cache
def _matching(pattern: str) -> st.SearchStrategy[str]:
    characters = string.ascii_letters + string.digits + string.punctuation + " "
    return st.from_regex(pattern, alphabet=characters, fullmatch=True)


_STRATEGIES: dict[str, Callable[[Schema], st.SearchStrategy[Any]]] = {
    "object": _objects,
    "array": _lists,
    "string": _texts,
    "integer": lambda schema: st.integers(
        schema.get("minimum", MIN_INT64), schema.get("maximum", MAX_INT64)
    ),
    "number": lambda schema: st.floats(
        schema.get("minimum", 0), schema.get("maximum", schema.get("minimum", 0) + 1)
    ),
    "boolean": lambda _: st.booleans(),
}


@cache
def manifests_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Whole objects of a kind, with and without a status."""
    (definition,) = (one for one in DEFINITIONS if one.model.KIND.kind == kind)
    properties = definition.schema()["properties"]
    parts = {name: values(properties[name]) for name in ("spec", "status") if name in properties}
    fixed = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}}
    return st.fixed_dictionaries(parts).map(lambda drawn: {**fixed, **drawn})


def _is_beyond_a_schema(problem: Problem) -> bool:
    return any(word in problem.message for word in BEYOND_A_SCHEMA)


@pytest.mark.parametrize("definition", KINDS)
@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_definition_and_program_agree(definition: Definition, data: st.DataObject) -> None:
    manifest = data.draw(manifests_of(definition.model.KIND.kind))
    schema = definition.schema()
    assert list(violations(manifest, schema)) == [] or _has_repeated_items(manifest, schema)

    try:
        value = definition.model.from_manifest(manifest)
    except InvalidManifest as invalid:
        if not all(_is_beyond_a_schema(problem) for problem in invalid.problems):
            raise
    else:
        assert list(violations(value.to_manifest(), schema)) == []


def _has_repeated_items(manifest: dict[str, Any], schema: Schema) -> bool:
    return all("an item twice" in violation for violation in violations(manifest, schema))
