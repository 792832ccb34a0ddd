"""`kubectl explain` says of each field that is not built that it is not."""

from collections.abc import Iterator

import pytest

from chiplog_core.problems import Reason
from chiplog_core.validate.unbuilt import FIELDS, UNBUILT, Feature
from crds.schema.definition import Definition
from crds.schema.kinds import DEFINITIONS
from crds.tests.files import EXAMPLES, manifests
from crds.tests.judge import problems_of


def description(definition: Definition, path: str) -> str:
    node = definition.schema()
    for step in path.split("."):
        node = node["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            node = node["items"]
    return str(node["description"])


def fields() -> Iterator[object]:
    for feature, places in FIELDS.items():
        for one in places:
            yield pytest.param(feature, one.kind.kind, one.path, id=f"{one.kind.kind}.{one.path}")


@pytest.mark.parametrize(("feature", "kind", "path"), [*fields()])
def test_a_field_says_that_it_is_not_built_and_what_to_do(
    feature: Feature, kind: str, path: str
) -> None:
    (definition,) = (one for one in DEFINITIONS if one.model.KIND.kind == kind)
    told = description(definition, path)

    assert "ot built yet: " in told
    assert told.endswith(f"{UNBUILT[feature]}.")


def test_every_feature_has_a_field() -> None:
    assert FIELDS.keys() == set(Feature)
    assert all(FIELDS.values())


def test_every_field_that_an_example_is_refused_for_says_so() -> None:
    paths = {(one.kind.kind, one.path) for places in FIELDS.values() for one in places}
    refused = {
        (str(manifest["kind"]), problem.field)
        for path in EXAMPLES
        for manifest in manifests(path)
        for problem in problems_of(manifest, None)
        if problem.reason is Reason.NOT_SUPPORTED
    }

    assert refused
    assert {(kind, _any_item(field)) for kind, field in refused} <= paths


def _any_item(field: str) -> str:
    return ".".join(
        f"{step.partition('[')[0]}[]" if "[" in step else step for step in field.split(".")
    )
