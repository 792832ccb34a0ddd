"""What `helm test` makes of each chart. Needs the program helm, and no cluster."""

import json
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest
import typer
import yaml

from charts.tests.files import (
    ALL,
    CLUSTER,
    MONITORING,
    OPERATOR,
    Manifest,
    Right,
    by_kind,
    manifests,
    render,
    rights,
)
from chiplog_cli.main import app
from chiplog_core.naming import names
from chiplog_operator import release_check
from e2e.cluster import build
from e2e.pod_security import not_ours, not_restricted

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CHARTS = [pytest.param(chart, id=chart.name) for chart in (OPERATOR, CLUSTER, MONITORING)]
HOOK, DELETED = "helm.sh/hook", "helm.sh/hook-delete-policy"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def made(chart: Path, *arguments: str, namespace: str = "here") -> list[Manifest]:
    """Only what `helm test` makes."""
    helm = build.program("helm")
    found = manifests(
        render(helm, chart, *arguments, "--namespace", namespace, release="mine", with_tests=True)
    )
    return [one for one in found if HOOK in one["metadata"].get("annotations", {})]


def pod_of(found: list[Manifest]) -> Any:
    (only,) = by_kind(found, "Pod")
    return only


def granted(found: list[Manifest]) -> dict[str, set[Right]]:
    """By namespace; empty for all."""
    return {
        one["metadata"].get("namespace", ""): rights(one["rules"])
        for kind in ("Role", "ClusterRole")
        for one in by_kind(found, kind)
    }


@pytest.mark.parametrize("chart", CHARTS)
def test_nothing_of_it_is_there_at_any_other_time(chart: Path) -> None:
    text = render(build.program("helm"), chart)
    assert HOOK not in text
    for one in made(chart):
        notes = one["metadata"]["annotations"]
        assert notes[HOOK] == "test"
        # Rights are there before the pod, and Helm deletes them when the pod has failed, too. The
        # pod stays for its logs, which Helm asks for after it has deleted what succeeded.
        is_right = one["kind"] in RIGHTS
        assert (notes.get("helm.sh/hook-weight") == "-1") is is_right
        assert notes[DELETED] == "before-hook-creation" + (",hook-succeeded" if is_right else "")


@pytest.mark.parametrize("chart", CHARTS)
def test_the_pod_is_restricted_and_is_none_of_the_operators_or_brokers(chart: Path) -> None:
    found = made(chart)
    pod = pod_of(found)
    assert not_restricted(pod["spec"]) == []
    assert not_ours(pod["spec"]) == []
    assert pod["spec"]["restartPolicy"] == "Never"
    name = pod["metadata"]["labels"]["app.kubernetes.io/name"]
    assert name.endswith("-test"), "no selector of ours may find it"
    (account,) = by_kind(found, "ServiceAccount")
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    for kind in ("Role", "ClusterRole"):
        roles, bindings = by_kind(found, kind), by_kind(found, f"{kind}Binding")
        for role, binding in zip(roles, bindings, strict=True):
            about, bound = role["metadata"], binding["metadata"]
            assert about["name"] == bound["name"] == binding["roleRef"]["name"]
            assert about.get("namespace") == bound.get("namespace")
            (subject,) = binding["subjects"]
            assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], "here")


@pytest.mark.parametrize("chart", CHARTS)
def test_all_of_it_has_one_name_and_nobody_else_has_it(chart: Path) -> None:
    """`helm test --logs` wants the logs of a pod of each name, and what has it is deleted first."""

    def name(namespace: str) -> str:
        (only,) = {one["metadata"]["name"] for one in made(chart, namespace=namespace)}
        return str(only)

    assert name("here").startswith("mine-test-")
    assert name("here") != name("there")


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("reference", ["", "r.example/x@sha256:1"])
def test_the_image_is_one_of_the_projects(chart: Path, reference: str) -> None:
    path = "image" if chart == OPERATOR else "test.image"
    pod = pod_of(made(chart, "--set", f"{path}.reference={reference},{path}.pullSecrets={{key}}"))
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    image = "chiplog/cli" if chart == CLUSTER else "chiplog/operator"
    (only,) = pod["spec"]["containers"]  # helm test --logs reads those of a pod that has one
    images = {only["image"]}
    assert images == {reference or f"{image}:{version}"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "key"}]


def test_of_the_operator() -> None:
    found = made(OPERATOR)
    assert granted(found) == {
        "here": {
            Right("apps", "deployments", "mine-operator", "get"),
            Right("coordination.k8s.io", "leases", names.OPERATOR_LEASE, "get"),
        }
    }
    (container,) = pod_of(found)["spec"]["containers"]
    assert container["command"] == ["python3", "-m", release_check.__name__]
    chosen = release_check.options(container["args"])
    assert (chosen.check, chosen.namespace) == ("operator", "here")
    deployments = by_kind(
        manifests(render(build.program("helm"), OPERATOR, release="mine")), "Deployment"
    )
    assert [one["metadata"]["name"] for one in deployments] == [chosen.deployment]


def test_of_a_cluster_and_its_topics() -> None:
    topics = json.dumps([{"name": "orders", "labels": {"app.kubernetes.io/name": "mine"}}])
    arguments = ("--set-json", f"topics={topics}", "--set", "cluster.name=shop")
    found = made(CLUSTER, *arguments)
    assert granted(found) == {
        "here": {
            Right("chiplog.dev", "topics", ALL, "list"),
            Right("chiplog.dev", "brokerclusters", "shop", "get"),
        }
    }
    (container,) = pod_of(found)["spec"]["containers"]
    assert container["args"][0] == "check"
    given = dict(one.removeprefix("--").split("=", 1) for one in container["args"][1:])
    assert (given["cluster"], given["namespace"], given["topics-in"]) == ("shop", "here", "here")
    rendered = manifests(render(build.program("helm"), CLUSTER, *arguments, release="mine"))
    (topic,) = by_kind(rendered, "Topic")
    wanted = dict(one.split("=") for one in given["selector"].split(","))
    assert wanted.items() <= topic["metadata"]["labels"].items()


def test_of_topics_of_a_cluster_elsewhere() -> None:
    values = "cluster.create=false,cluster.name=shared,cluster.namespace=platform"
    found = made(CLUSTER, "--set", values)
    assert granted(found) == {
        "here": {Right("chiplog.dev", "topics", ALL, "list")},
        "platform": {Right("chiplog.dev", "brokerclusters", "shared", "get")},
    }
    (container,) = pod_of(found)["spec"]["containers"]
    assert "--namespace=platform" in container["args"]
    assert "--topics-in=here" in container["args"]


@pytest.mark.parametrize("home", ["here", "platform"])
def test_of_a_cluster_whose_listeners_ask_for_credentials(home: str) -> None:
    """The pod may read the one Secret, where the CLI looks for it: in the cluster's namespace."""
    elsewhere = "cluster.create=false,cluster.namespace=platform," if home == "platform" else ""
    found = made(CLUSTER, "--set", f"{elsewhere}cluster.name=shop,test.user=release-check")
    granted_at_home = granted(found)[home]
    assert Right("", "secrets", "release-check", "get") in granted_at_home
    assert Right("chiplog.dev", "brokerclusters", "shop", "get") in granted_at_home
    assert [one for rights in granted(found).values() for one in rights if one.group == ""] == [
        Right("", "secrets", "release-check", "get")
    ]
    (container,) = pod_of(found)["spec"]["containers"]
    assert "--user=release-check" in container["args"]
    # The program takes these arguments.
    command = typer.main.get_command(app).commands["check"]  # type: ignore[attr-defined]
    assert command.make_context("check", container["args"][1:]).params["user"] == "release-check"


@pytest.mark.parametrize("user", ["123", "1e3", "true", "null", "on"])
def test_of_a_user_whose_name_yaml_would_take_for_something_else(user: str) -> None:
    found = made(CLUSTER, "--set", "cluster.name=shop", "--set-string", f"test.user={user}")
    assert Right("", "secrets", user, "get") in granted(found)["here"]
    (container,) = pod_of(found)["spec"]["containers"]
    assert f"--user={user}" in container["args"]


@pytest.mark.parametrize("name", ["Release_Check", "-x", "a b", "a,b"])
def test_a_user_that_no_object_can_be_is_refused(name: str) -> None:
    with pytest.raises(CalledProcessError) as refused:
        made(CLUSTER, "--set-json", f"test.user={json.dumps(name)}")
    assert "/test/user" in refused.value.stderr or "test.user" in refused.value.stderr


@pytest.mark.parametrize(
    ("operator", "brokers", "where"),
    [
        ([], [], {""}),
        (["system"], [], {""}),
        (["system"], ["shop", "system"], {"system", "shop"}),
    ],
)
def test_of_the_monitoring(operator: list[str], brokers: list[str], where: set[str]) -> None:
    arguments = [
        f"podMonitors.{job}.namespaces={json.dumps(namespaces)}"
        for job, namespaces in (("operator", operator), ("brokers", brokers))
    ]
    given = [word for one in arguments for word in ("--set-json", one)]
    found = made(MONITORING, *given)
    assert granted(found) == {namespace: {Right("", "pods", ALL, "list")} for namespace in where}
    (container,) = pod_of(found)["spec"]["containers"]
    chosen = vars(release_check.options(container["args"]))
    assert chosen["operator"] == (",".join(operator) or release_check.ALL)
    assert chosen["brokers"] == (",".join(brokers) or release_check.ALL)
    rendered = manifests(render(build.program("helm"), MONITORING, *given, release="mine"))
    monitors = {
        one["metadata"]["name"]: one["spec"]["selector"]["matchLabels"]
        for one in by_kind(rendered, "PodMonitor")
    }
    assert monitors == {f"mine-{name}": job.labels for name, job in release_check.JOBS.items()}


def test_without_pod_monitors_there_is_nothing_to_ask() -> None:
    off = "podMonitors.brokers.enabled=false,podMonitors.operator.enabled=false"
    assert made(MONITORING, "--set", off) == []
    only = made(MONITORING, "--set", "podMonitors.operator.enabled=false")
    (container,) = pod_of(only)["spec"]["containers"]
    chosen = vars(release_check.options(container["args"]))
    assert (chosen["operator"], chosen["brokers"]) == (None, release_check.ALL)
