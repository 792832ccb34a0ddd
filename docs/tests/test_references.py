"""The reference pages name everything there is to write, and what is said to whoever errs."""

import pytest
from typer import main
from typer.core import TyperGroup

from chiplog_cli.main import app
from crds.schema.definition import Definition
from crds.schema.kinds import DEFINITIONS
from docs import command_reference, kind_reference
from docs.tables import table

RULES = "x-kubernetes-validations"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: str(one.model.KIND.kind))
def test_every_message_of_the_definition_is_on_the_page(definition: Definition) -> None:
    page = kind_reference.page(definition)

    for message in messages(definition.schema()):
        said = message[1:].replace("|", "\\|").replace("<", "&lt;")
        assert said in page, message


def messages(schema: object) -> list[str]:
    """What the rules anywhere below say; not those of single configuration keys."""
    if isinstance(schema, list):
        return [message for one in schema for message in messages(one)]
    if not isinstance(schema, dict):
        return []
    own = [rule["message"] for rule in schema.get(RULES, ())]
    for name, one in schema.items():
        is_keys = name == "config" and isinstance(one, dict)
        below = {RULES: one.get(RULES, ())} if is_keys else one
        own += messages(below)
    return own


def test_what_may_be_written_is_said_in_words() -> None:
    of = kind_reference.type_of

    assert of({"type": "integer", "minimum": 1, "maximum": 2000}) == "integer 1 to 2,000"
    assert of({"type": "integer", "minimum": 0}) == "integer from 0"
    assert of({"enum": [True, False, "true", "false"]}) == "`true`, `false`"
    assert of({"enum": ["True", "False", "Unknown"]}) == "`True`, `False`, `Unknown`"
    assert of({"items": {"type": "object"}}) == "list of object"
    assert of({"additionalProperties": {"type": "string", "maxLength": 63}}) == (
        "map of text, at most 63"
    )


def test_a_list_s_items_and_a_map_s_values_are_fields() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = {
        "properties": {
            "all": {"items": item},
            "by": {"additionalProperties": item},
        }
    }

    found = {one.path: one.required for one in kind_reference.fields(schema)}

    assert found == {"all": False, "all[].name": True, "by": False, "by.*.name": True}


def test_every_command_and_option_is_on_the_page() -> None:
    page = command_reference.page()
    root = main.get_command(app)
    assert isinstance(root, TyperGroup)

    found = dict(command_reference.commands(root))

    assert {"chiplog top", "chiplog groups reset"} <= set(found)
    for path, command in found.items():
        assert f"## {path}\n" in page
        for option in command.params:
            assert all(name in page for name in option.opts if name.startswith("-")), path


def test_what_would_end_a_cell_does_not() -> None:
    assert table(("A", "B"), [("a|b", "<c>\nd")]) == (
        "| A | B |\n| --- | --- |\n| a\\|b | &lt;c> d |\n"
    )
