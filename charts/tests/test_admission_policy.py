"""The policy by which the API server judges Topics, as a file and as Helm renders it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.tests.files import OPERATOR, Manifest, by_kind, manifests, render
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.topic_policies import TopicPolicies
from chiplog_core.naming import labels
from chiplog_core.spark.choices import Allowed
from chiplog_operator.main import options
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
    """The policy of Topics and its bindings."""
    found = all_policies(helm, *arguments)
    return [one for one in found if "-topics" in one["metadata"]["name"]]


def all_policies(helm: Path, *arguments: str) -> list[Manifest]:
    found = manifests(render(helm, OPERATOR, *arguments))
    return [one for one in found if str(one["kind"]).startswith("ValidatingAdmissionPolicy")]


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
    assert all_policies(helm, "--set", "admissionPolicies.install=false") == []
    assert all_policies(helm, "--kube-version", "1.29.5") == []


# ---- who asks ----

ASKERS = ("spark", "scaling")


@pytest.mark.cluster
@pytest.mark.parametrize("what", ASKERS)
def test_a_policy_of_who_asks_is_the_file_and_refuses_where_it_cannot_judge(
    helm: Path, what: str
) -> None:
    file = yaml.safe_load((OPERATOR / "policies" / f"{what}.yaml").read_text())
    name = f"chiplog-operator-{what}"
    found = all_policies(helm, "--set", "watchNamespaces={team-a}")
    policy, binding = (one for one in found if one["metadata"]["name"] == name)

    assert {key: policy["spec"][key] for key in file} == file
    assert file["failurePolicy"] == "Fail"
    assert "authorizer." in str(file["validations"])
    assert binding["spec"]["policyName"] == name
    (term,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert term["values"] == ["team-a"]


@pytest.mark.cluster
def test_the_operator_deletes_only_the_claims_of_brokers(helm: Path) -> None:
    file = yaml.safe_load((OPERATOR / "policies" / "claims.yaml").read_text())
    found = all_policies(helm, "--namespace", "elsewhere")
    (policy,) = (
        one
        for one in by_kind(found, "ValidatingAdmissionPolicy")
        if one["metadata"]["name"] == "chiplog-operator-claims"
    )

    (condition,) = policy["spec"]["matchConditions"]
    assert {key: policy["spec"][key] for key in file} == file
    account = "system:serviceaccount:elsewhere:chiplog-operator"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    (judged,) = file["validations"]
    assert all(label in judged["expression"] for label in (labels.CLUSTER, labels.BROKER_ID))
    (rule,) = file["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["DELETE"], ["persistentvolumeclaims"])


@pytest.mark.cluster
def test_the_operator_and_the_api_server_allow_the_same(helm: Path) -> None:
    allowed = (
        "--set-json",
        'spark={"allowedImages":["r.example/spark:1","it\'s:2"],"allowedServiceAccounts":["a/b"]}',
    )
    found = manifests(render(helm, OPERATOR, *allowed))
    (policy,) = (
        one
        for one in by_kind(found, "ValidatingAdmissionPolicy")
        if one["metadata"]["name"].endswith("-spark")
    )
    variables = {one["name"]: json.loads(one["expression"]) for one in policy["spec"]["variables"]}
    (deployment,) = by_kind(found, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    told = options([*container["args"], f"--spark-image={variables['allowedImages'][0]}"])

    assert told.spark_allowed == Allowed(
        images=frozenset(variables["allowedImages"]),
        service_accounts=frozenset(variables["allowedServiceAccounts"]),
        is_judged_at_admission=True,
    )
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["CHIPLOG_SPARK_IMAGE"] == variables["allowedImages"][0]


@pytest.mark.cluster
@pytest.mark.parametrize(
    "argument", [("--set", "admissionPolicies.install=false"), ("--kube-version", "1.29.5")]
)
def test_where_nobody_judges_who_asks_the_operator_knows_it(
    helm: Path, argument: tuple[str, str]
) -> None:
    (deployment,) = by_kind(manifests(render(helm, OPERATOR, *argument)), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--spark-judged-at-admission" not in container["args"]
