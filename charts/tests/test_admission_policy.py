"""The policy by which the API server judges Topics, as a file and as Helm renders it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.tests.files import OPERATOR, Manifest, by_kind, manifests, render
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.topic_policies import TopicPolicies
from e2e.cluster import build

POLICY = OPERATOR / "policies" / "topics.yaml"
TEMPLATE = "templates/admission-policy.yaml"


def spec() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(POLICY.read_text())
    return found


def test_the_file_has_nothing_that_helm_would_take_for_its_own() -> None:
    assert "{{" not in POLICY.read_text()


def test_every_policy_is_judged() -> None:
    judged = " ".join(one["expression"] for one in (*spec()["validations"], *spec()["variables"]))

    for policy in object_shape(TopicPolicies).fields:
        assert policy.name in judged


def test_every_variable_is_used_and_made_before_it_is() -> None:
    known: set[str] = set()
    for variable in spec()["variables"]:
        assert _used(variable["expression"]) <= known
        known.add(variable["name"])
    judged = [one[key] for one in spec()["validations"] for key in one]
    used = set.union(*map(_used, [*judged, *(one["expression"] for one in spec()["variables"])]))
    assert used == known


def _used(expression: str) -> set[str]:
    _, *after = expression.split("variables.")
    return {"".join(_leading_word(text)) for text in after}


def _leading_word(text: str) -> str:
    end = next((at for at, one in enumerate(text) if not one.isalnum()), len(text))
    return text[:end]


def test_what_cannot_be_judged_is_left_to_the_operator() -> None:
    assert spec()["failurePolicy"] == "Ignore"


# ---- as Helm renders it ----


@pytest.fixture(scope="module")
def helm() -> Path:
    return build.program("helm")


def rendered(helm: Path, *arguments: str) -> list[Manifest]:
    return [one for one in manifests(render(helm, OPERATOR, *arguments)) if is_of_policy(one)]


def is_of_policy(manifest: Manifest) -> bool:
    return str(manifest["kind"]).startswith("ValidatingAdmissionPolicy")


@pytest.mark.cluster
def test_the_policy_is_the_file_and_is_bound_to_the_topics_own_namespace(helm: Path) -> None:
    policy, binding = rendered(helm)

    assert policy["spec"] == spec()
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
        "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
    }


@pytest.mark.cluster
def test_clusters_of_other_namespaces_have_a_binding_each(helm: Path) -> None:
    found = rendered(helm, "--set", "admissionPolicies.clusterNamespaces={platform,shared}")

    bindings = by_kind(found, "ValidatingAdmissionPolicyBinding")
    assert [one["spec"]["paramRef"].get("namespace") for one in bindings] == [
        None,
        "platform",
        "shared",
    ]
    assert len({one["metadata"]["name"] for one in bindings}) == 3


@pytest.mark.cluster
def test_namespaces_that_the_operator_does_not_look_after_are_left_alone(helm: Path) -> None:
    found = rendered(helm, "--set", "watchNamespaces={team-a,team-b}")

    (binding,) = by_kind(found, "ValidatingAdmissionPolicyBinding")
    (term,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert term["values"] == ["team-a", "team-b"]


@pytest.mark.cluster
def test_it_can_be_left_out_and_is_where_kubernetes_does_not_know_it(helm: Path) -> None:
    assert rendered(helm, "--set", "admissionPolicies.install=false") == []
    assert rendered(helm, "--kube-version", "1.29.5") == []
