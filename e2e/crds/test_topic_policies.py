"""A real API server judges Topics by the policies as the program does, with the same messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.tests.guarded import CASES, Case, filled
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.target import Target

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CHART = Path(__file__).resolve().parents[2] / "charts" / "chiplog-operator"
POLICY = CHART / "policies" / "topics.yaml"
NAME = "e2e-topic-policies"
HOME, TEAM = "e2e-guard", "e2e-guard-team"
API = "admissionregistration.k8s.io/v1"
ACCEPTED = [case for case in CASES if not case.text]
REFUSED = [case for case in CASES if case.text]
ONES_OWN = "partitions"
"""A case that is judged in the cluster's own namespace as well."""


def by_id(case: Case) -> str:
    return case.id


def name_of(case: Case) -> str:
    return f"guard-{CASES.index(case)}"


def cluster(case: Case) -> str:
    return json.dumps(filled(case.cluster(name_of(case), HOME), name_of(case), TEAM))


def topic(case: Case, spec: Any, namespace: str = TEAM) -> str:
    made = case.topic(spec, name_of(case), namespace, HOME)
    return json.dumps(filled(made, name_of(case), namespace))


def binding(name: str, **reference: object) -> dict[str, Any]:
    """A policy binding for these namespaces only, so that nothing else on the cluster is
    affected."""
    term = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [HOME, TEAM]}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": NAME,
            "validationActions": ["Deny"],
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow", **reference},
            "matchResources": {"namespaceSelector": {"matchExpressions": [term]}},
        },
    }


@pytest.fixture(scope="module")
def team(target: Target, definitions: None, no_operator: None) -> Iterator[Kubectl]:
    """The team's namespace, with Topics that existed before the policies took effect."""
    home, team = Kubectl(target.kubeconfig, HOME), Kubectl(target.kubeconfig, TEAM)
    for one in (home, team):
        one.recreate_namespace()
    for case in CASES:
        if case.before is not None:
            team.apply(topic(case, case.before))
    policy = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": yaml.safe_load(POLICY.read_text()),
    }
    of_home = binding(f"{NAME}.home", namespace=HOME)
    for made in (policy, binding(NAME), of_home):
        home.apply(json.dumps(made))
    # The API server notices clusters in the order in which they are created: once the policy
    # applies to the last one, it applies to all.
    for case in (*ACCEPTED, *REFUSED):
        home.apply(cluster(case))
    eventually("the policies are in force", lambda: bool(refused(team, REFUSED[-1])))
    try:
        yield team
    finally:
        home("delete", "validatingadmissionpolicybinding", NAME, f"{NAME}.home")
        home("delete", "validatingadmissionpolicy", NAME)
        for one in (home, team):
            one.delete_namespace()


def refused(kubectl: Kubectl, case: Case) -> str:
    """The message with which the case's Topic is refused; fails if it is accepted."""
    manifest = topic(case, case.spec, kubectl.namespace)
    said = kubectl.fails("apply", "--dry-run=server", "-f", "-", input_text=manifest)
    return " ".join(said.split())


@pytest.mark.parametrize("case", REFUSED, ids=by_id)
def test_what_breaks_a_policy_is_refused_in_the_programs_words(team: Kubectl, case: Case) -> None:
    assert f"denied request: {filled(case.text, name_of(case), TEAM)}" in refused(team, case)


@pytest.mark.parametrize("case", ACCEPTED, ids=by_id)
def test_what_keeps_to_the_policies_is_accepted(team: Kubectl, case: Case) -> None:
    manifest = topic(case, case.spec)
    assert "(server dry run)" in team("apply", "--dry-run=server", "-f", "-", input_text=manifest)


def test_a_cluster_in_the_topics_own_namespace_is_found(team: Kubectl) -> None:
    """By a reference that names no namespace."""
    (case,) = (case for case in CASES if case.id == ONES_OWN)
    manifest = json.loads(topic(case, case.spec, HOME))
    del manifest["spec"]["clusterRef"]["namespace"]
    home = Kubectl(team.kubeconfig, HOME)
    text = json.dumps(manifest)
    said = " ".join(home.fails("apply", "--dry-run=server", "-f", "-", input_text=text).split())
    assert filled(case.text, name_of(case), HOME) in said


def test_what_is_beside_the_spec_of_a_topic_from_before_is_not_judged(team: Kubectl) -> None:
    for case in CASES:
        if case.before is not None:
            assert "labeled" in team("label", "ct", case.id, "checked=yes", "--overwrite")


def test_the_api_server_finds_nothing_wrong_with_the_policy(team: Kubectl) -> None:
    def is_checked() -> bool:
        status = team.get("validatingadmissionpolicy", NAME).get("status", {})
        return bool(status.get("observedGeneration")) and not status.get("typeChecking")

    eventually("the policy is type-checked", is_checked)
