"""The charts as Helm renders them. Needs the program helm, and no cluster."""

import json
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest
import yaml

from charts.tests.files import (
    ALL,
    CHECKOUT,
    CLUSTER,
    OPERATOR,
    Manifest,
    by_kind,
    chart_rights,
    manifests,
    notes,
    render,
    rights,
)
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_operator.main import options
from e2e.cluster import build, layout
from e2e.cluster.shell import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLE = CLUSTER / "examples" / "orders.yaml"


@pytest.fixture(scope="module")
def helm() -> Path:
    return build.program("helm")


def refused(helm: Path, *arguments: str, chart: Path = CLUSTER) -> str:
    """What Helm says to values it must refuse."""
    with pytest.raises(CalledProcessError) as failed:
        render(helm, chart, *arguments)
    return str(failed.value.stderr)


def one(found: list[Manifest], kind: str) -> Any:
    (only,) = by_kind(found, kind)
    return only


@pytest.mark.parametrize("chart", [OPERATOR, CLUSTER], ids=lambda path: path.name)
def test_lint_finds_nothing(helm: Path, chart: Path) -> None:
    assert "0 chart(s) failed" in run(str(helm), "lint", "--strict", str(chart))


@pytest.mark.parametrize("chart", [OPERATOR, CLUSTER], ids=lambda path: path.name)
def test_rendering_twice_gives_the_same_bytes(helm: Path, chart: Path) -> None:
    arguments = ("-f", str(EXAMPLE)) if chart is CLUSTER else ()
    assert render(helm, chart, *arguments) == render(helm, chart, *arguments)


# ---- the operator ----


def test_the_definitions_are_templates_and_can_be_left_out(helm: Path) -> None:
    definitions = by_kind(manifests(render(helm, OPERATOR)), "CustomResourceDefinition")
    originals = [yaml.safe_load(p.read_text()) for p in (CHECKOUT / "crds").glob("*.yaml")]
    for definition in definitions:
        annotations = definition["metadata"].pop("annotations")
        assert annotations["helm.sh/resource-policy"] == "keep"
        assert definition in originals
    assert len(definitions) == len(originals)
    without = manifests(render(helm, OPERATOR, "--set", "crds.install=false"))
    assert by_kind(without, "CustomResourceDefinition") == []


def test_an_old_api_server_is_given_no_field_that_it_does_not_know(helm: Path) -> None:
    def selectable(version: str) -> set[str]:
        found = manifests(render(helm, OPERATOR, "--kube-version", version))
        return {
            definition["spec"]["names"]["kind"]
            for definition in by_kind(found, "CustomResourceDefinition")
            if "selectableFields" in definition["spec"]["versions"][0]
        }

    assert selectable("1.29.14") == set()
    assert selectable("1.30.1") == {
        "Topic",
        "ConsumerGroup",
        "User",
        "Verification",
        "Rebalance",
    }


def test_the_definitions_have_the_annotations_of_the_values_and_are_kept(helm: Path) -> None:
    wanted = {"argocd.argoproj.io/sync-options": "Prune=false", "helm.sh/resource-policy": "drop"}
    found = manifests(
        render(helm, OPERATOR, "--set-json", f"crds.annotations={json.dumps(wanted)}")
    )
    for definition in by_kind(found, "CustomResourceDefinition"):
        assert definition["metadata"]["annotations"] == {
            **wanted,
            "helm.sh/resource-policy": "keep",
        }


def test_for_all_namespaces_there_is_one_cluster_role(helm: Path) -> None:
    found = manifests(render(helm, OPERATOR, "--namespace", "chiplog-system"))
    granted = rights(one(found, "ClusterRole")["rules"])
    assert granted == chart_rights("namespaced") | chart_rights("cluster")
    role, binding = one(found, "Role"), one(found, "RoleBinding")
    assert role["metadata"]["namespace"] == "chiplog-system"
    assert rights(role["rules"]) == chart_rights("own")
    account = one(found, "ServiceAccount")["metadata"]
    for bound in (binding, one(found, "ClusterRoleBinding")):
        (subject,) = bound["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], "chiplog-system")


def test_a_second_release_in_a_namespace_has_an_object_in_common_with_the_first(helm: Path) -> None:
    """So Helm refuses it: only one of the two would ever hold the Lease."""
    one_of, other = (leaders(helm, release) for release in ("chiplog", "team-a"))
    assert one_of == other == leaders(helm, "chiplog-operator")
    assert len(one_of) == 2
    found = manifests(render(helm, OPERATOR, release="team-a"))
    bound = one(found, "RoleBinding")
    assert bound["roleRef"]["name"] == one(found, "Role")["metadata"]["name"]
    assert bound["subjects"][0]["name"] == "team-a-operator"


def leaders(helm: Path, release: str) -> set[tuple[str, str, str]]:
    """The objects by which a release may hold the Lease."""
    found = manifests(render(helm, OPERATOR, "--namespace", "system", release=release))
    return {
        (made["kind"], made["metadata"]["namespace"], made["metadata"]["name"])
        for kind in ("Role", "RoleBinding")
        for made in by_kind(found, kind)
    }


def test_for_named_namespaces_it_has_no_rights_elsewhere(helm: Path) -> None:
    found = manifests(
        render(
            *(helm, OPERATOR, "--namespace", "chiplog-system"),
            *("--set-json", 'watchNamespaces=["blue","green"]'),
        )
    )
    assert rights(one(found, "ClusterRole")["rules"]) == chart_rights("cluster")
    granted = {
        role["metadata"]["namespace"]: rights(role["rules"]) for role in by_kind(found, "Role")
    }
    assert granted == {
        "chiplog-system": chart_rights("own"),
        "blue": chart_rights("namespaced"),
        "green": chart_rights("namespaced"),
    }
    for binding in by_kind(found, "RoleBinding"):
        roles = [
            role
            for role in by_kind(found, "Role")
            if role["metadata"]["namespace"] == binding["metadata"]["namespace"]
            and role["metadata"]["name"] == binding["roleRef"]["name"]
        ]
        assert len(roles) == 1
        assert binding["subjects"][0]["namespace"] == "chiplog-system"
    assert "--watch-namespaces=blue,green" in container(found)["args"]


def test_who_says_nothing_of_namespaces_is_asked(helm: Path) -> None:
    """Rights in all of them are not what one gets by leaving something out."""
    for values in ("watchAllNamespaces=false", "watchNamespaces=[]"):
        told = refused(helm, "--set-json", values, chart=OPERATOR)
        assert "watchNamespaces={demo,...}" in told
        assert "watchAllNamespaces=true" in told
    both = "watchAllNamespaces=true,watchNamespaces={demo}"
    assert "remove one of the two" in refused(helm, "--set", both, chart=OPERATOR)


SECRETS = (
    names.internal_secret,
    names.cluster_ca_key,
    names.cluster_ca_certificate,
    names.clients_ca_key,
    names.clients_ca_certificate,
    names.broker_certificates,
    names.scram_credentials,
)


def test_secrets_by_the_names_of_clusters(helm: Path) -> None:
    values = "watchNamespaces={blue},secretsOfClusters={demo,orders}"
    found = manifests(render(helm, OPERATOR, "--set", values))
    (role,) = (one for one in by_kind(found, "Role") if one["metadata"]["namespace"] == "blue")
    of_secrets = {right for right in rights(role["rules"]) if right.resource == "secrets"}
    named = {(right.verb, right.object) for right in of_secrets}
    assert named == {
        ("create", ALL),
        *(
            (verb, name(cluster))
            for verb in ("get", "patch")
            for cluster in ("demo", "orders")
            for name in SECRETS
        ),
    }
    others = {right for right in chart_rights("namespaced") if right.resource != "secrets"}
    assert rights(role["rules"]) - of_secrets == others


def test_secrets_by_the_names_of_users(helm: Path) -> None:
    values = "watchNamespaces={blue},secretsOfClusters={demo},secretsOfUsers={shop,a.b}"
    found = manifests(render(helm, OPERATOR, "--set", values))
    (role,) = (one for one in by_kind(found, "Role") if one["metadata"]["namespace"] == "blue")
    of_users = {
        (right.verb, right.object)
        for right in rights(role["rules"])
        if right.resource == "secrets" and right.object in ("shop", "a.b")
    }
    assert of_users == {
        (verb, name) for verb in ("get", "patch", "delete") for name in ("shop", "a.b")
    }


def test_helm_takes_the_version_it_was_built_for(helm: Path) -> None:
    """For a cluster that nobody asks; 1.20 would be older than what the charts need."""
    said = run(str(helm), "template", "x", str(CLUSTER), "--set", "topics=null")
    assert "kind: BrokerCluster" in said
    minor = layout.KUBERNETES_VERSION.rpartition(".")[0]
    assert f'KubeClientVersion:"{minor}"' in run(str(helm), "version")


def container(found: list[Manifest]) -> Any:
    (only,) = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    return only


def test_the_operators_pod_is_restricted(helm: Path) -> None:
    found = manifests(render(helm, OPERATOR))
    pod = one(found, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (only,) = pod["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert ports == {"health": 8080, "metrics": 9404}
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert only[probe]["httpGet"]["path"] == path
        assert ports[only[probe]["httpGet"]["port"]] == 8080


def test_selectors_find_the_operators_pods(helm: Path) -> None:
    values = json.dumps({"team": "a", "app.kubernetes.io/name": "mine"})
    found = manifests(render(helm, OPERATOR, "--set-json", f"podLabels={values}"))
    spec = one(found, "Deployment")["spec"]
    own = spec["template"]["metadata"]["labels"]
    assert own["team"] == "a"
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    selectors = [
        spec["selector"],
        one(found, "PodDisruptionBudget")["spec"]["selector"],
        *(constraint["labelSelector"] for constraint in spread),
    ]
    assert all(selector["matchLabels"].items() <= own.items() for selector in selectors)


@pytest.mark.parametrize("namespaces", [[], ["monitoring", "team-a"]])
def test_the_operators_ports_are_for_probes_and_metrics_alone(
    helm: Path, namespaces: list[str]
) -> None:
    value = f"networkPolicy.metricsNamespaces={json.dumps(namespaces)}"
    found = manifests(render(helm, OPERATOR, "--set-json", value))
    spec = one(found, "NetworkPolicy")["spec"]
    own = one(found, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= own.items()
    assert spec["policyTypes"] == ["Ingress"]
    probes, metrics = spec["ingress"]
    assert probes == {"ports": [{"port": 8080, "protocol": "TCP"}]}
    assert metrics.pop("ports") == [{"port": 9404, "protocol": "TCP"}]
    chosen = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    from_them = {"from": [{"namespaceSelector": {"matchExpressions": [chosen]}}]}
    assert metrics == (from_them if namespaces else {})
    assert {port["containerPort"] for port in container(found)["ports"]} == {8080, 9404}


def test_without_a_network_policy(helm: Path) -> None:
    found = manifests(render(helm, OPERATOR, "--set", "networkPolicy.enabled=false"))
    assert by_kind(found, "NetworkPolicy") == []


def test_a_single_operator_has_no_disruption_budget(helm: Path) -> None:
    """It would hold up every drain for nothing: the next one takes over anyway."""
    found = manifests(render(helm, OPERATOR, "--set", "replicas=1"))
    assert by_kind(found, "PodDisruptionBudget") == []


def test_images_by_repository_tag_or_whole_reference(helm: Path) -> None:
    def images(*arguments: str) -> tuple[str, str]:
        only = container(manifests(render(helm, OPERATOR, *arguments)))
        (brokers,) = [e["value"] for e in only["env"] if e["name"] == "CHIPLOG_BROKER_IMAGE"]
        return only["image"], brokers

    version = yaml.safe_load((OPERATOR / "Chart.yaml").read_text())["appVersion"]
    assert images() == (f"chiplog/operator:{version}", f"chiplog/broker:{version}")
    assert images("--set-string", "image.repository=r.example/op,brokerImage.tag=9") == (
        f"r.example/op:{version}",
        "chiplog/broker:9",
    )
    assert images("--set", "image.reference=a@sha256:1,brokerImage.reference=b:2") == (
        "a@sha256:1",
        "b:2",
    )


def test_the_fields_that_the_values_name_for_pull_secrets_are_there() -> None:
    """Brokers and Spark jobs take theirs from the BrokerCluster."""
    text = (OPERATOR / "values.yaml").read_text()
    assert text.count("spec.template.imagePullSecrets of the") == 2
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": "demo", "namespace": "shop"},
        "spec": {
            "replicas": 1,
            "storage": {"size": "1Gi"},
            "template": {"imagePullSecrets": ["registry"]},
        },
    }
    template = BrokerCluster.from_manifest(manifest).spec.template
    assert template is not None
    assert template.image_pull_secrets == ("registry",)


def test_the_operators_own_command_line_takes_the_charts_arguments(
    helm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = container(
        manifests(render(helm, OPERATOR, "--set", "logLevel=debug,watchNamespaces={blue,green}"))
    )
    for entry in found["env"]:
        monkeypatch.setenv(entry["name"], entry.get("value", "x"))
    chosen = options(found["args"])
    assert chosen.log_level == "debug"
    assert chosen.watch_namespaces == ("blue", "green")
    assert chosen.broker_image.startswith("chiplog/broker:")
    assert chosen.namespace == "x"  # the pod's, by POD_NAMESPACE


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("watchNamespace", '"a"', "'watchNamespace'"),
        ("watchNamespaces", '["A b"]', "'/watchNamespaces/0'"),
        ("logLevel", '"loud"', "'/logLevel'"),
        ("replicas", '"2"', "'/replicas'"),
        ("networkPolicy.metricsNamespaces", '["a","a"]', "'/networkPolicy/metricsNamespaces'"),
        ("crds.annotations", '{"a":1}', "'/crds/annotations/a'"),
        ("resources.request", '{"cpu":"1"}', "'request'"),
    ],
)
def test_a_mistake_in_the_operators_values_is_refused_with_its_field(
    helm: Path, path: str, value: str, told: str
) -> None:
    assert told in refused(helm, "--set-json", f"{path}={value}", chart=OPERATOR)


# ---- a cluster ----


def test_the_example_values_give_the_example(helm: Path) -> None:
    rendered = render(helm, CLUSTER, "-f", str(EXAMPLE), "--namespace", "demo", release="demo")
    example = list(yaml.safe_load_all((CHECKOUT / "examples" / "orders.yaml").read_text()))
    found = manifests(rendered)
    for manifest in found:
        assert manifest["metadata"].pop("namespace") == "demo"
        assert manifest["metadata"].pop("labels")["app.kubernetes.io/managed-by"] == "Helm"
    assert found == example
    only = manifests(render(helm, CLUSTER, "-f", str(EXAMPLE), "--set-json", "topics=[]"))
    assert [manifest["kind"] for manifest in only] == ["BrokerCluster"]


def test_a_cluster_is_called_like_its_release(helm: Path) -> None:
    assert one(manifests(render(helm, CLUSTER, release="mine")), "BrokerCluster")["metadata"][
        "name"
    ] == ("mine")


TOPICS = [
    {"name": "orders"},
    {
        "name": "order-placed",
        "spec": {"topicName": "order_placed", "config": {"retention.ms": 604800000}},
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
    },
]


def test_topics_and_groups_of_a_cluster_elsewhere(helm: Path) -> None:
    found = manifests(
        render(
            *(helm, CLUSTER, "--set", "cluster.create=false,topicPrefix=staging."),
            *("--set", "cluster.name=shared,cluster.namespace=platform"),
            *("--set-json", f"topics={json.dumps(TOPICS)}"),
            *("--set-json", 'consumerGroups=[{"name":"billing","spec":{"maxLag":{"records":5}}}]'),
        )
    )
    reference = {"name": "shared", "namespace": "platform"}
    plain, odd = by_kind(found, "Topic")
    assert by_kind(found, "BrokerCluster") == []
    assert plain["metadata"]["name"] == "staging.orders"
    assert plain["spec"] == {"clusterRef": reference}
    assert odd["metadata"]["name"] == "staging.order-placed"
    assert odd["metadata"]["labels"]["team"] == "a"
    assert odd["metadata"]["annotations"] == {"note": "b"}
    assert odd["spec"] == {
        "clusterRef": reference,
        "topicName": "staging.order_placed",
        "config": {"retention.ms": 604800000},
    }
    assert type(odd["spec"]["config"]["retention.ms"]) is int
    group = one(found, "ConsumerGroup")
    assert group["metadata"]["name"] == "billing"
    assert group["spec"] == {"clusterRef": reference, "maxLag": {"records": 5}}


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("cluster.spec.replica", "3", "'replica'"),
        ("cluster.spec.replicas", "0", "/replicas'"),
        ("cluster.spec.storage.size", '"many"', "/storage/size'"),
        ("cluster.name", '"Demo"', "/cluster/name'"),
        ("topicPrefix", '"Staging"', "'/topicPrefix'"),
        ("groupPrefix", '"a b"', "'/groupPrefix'"),
        ("topics", '[{"name":"a","spec":{"config":{"retention.mss":1}}}]', "'retention.mss'"),
        (
            "topics",
            '[{"name":"a","spec":{"config":{"retention.ms":9007199254740993}}}]',
            "/config/retention.ms'",
        ),
        ("topics", '[{"name":"a","spec":{"topicName":"a b"}}]', "/topicName'"),
        ("topics", '[{"spec":{}}]', "'name'"),
        ("consumerGroups", '[{"name":"a","spec":{"reset":{"id":"1"}}}]', "'strategy'"),
        ("verifications", '[{"name":"a","spec":{"checks":["Crcc"]}}]', "/checks/0'"),
        ("verifications", '[{"name":"a","spec":{"clusterRef":{"name":"b"}}}]', "'clusterRef'"),
    ],
)
def test_a_mistake_in_the_values_is_refused_with_its_field(
    helm: Path, path: str, value: str, told: str
) -> None:
    said = refused(helm, "--set-json", f"{path}={value}")
    assert "don't meet the specifications" in said
    assert told in said


@pytest.mark.parametrize(
    ("create", "told"),
    [
        ("true", "Uninstalling this release stops the brokers and keeps their volumes"),
        ("false", "Uninstalling this release removes all its topics in this way"),
    ],
)
def test_the_notes_say_when_records_go(helm: Path, tmp_path: Path, create: str, told: str) -> None:
    """A Topic that goes without its cluster takes its records along; with it, it does not."""
    said = notes(helm, CLUSTER, tmp_path, "--set", f"cluster.create={create}")
    assert "Removing a topic from the values deletes its records" in said
    assert "unless its deletionPolicy is" in said
    assert told in said
    assert ("keeps their volumes" in said) is (create == "true")


VERIFICATION = {
    "name": "weekly",
    "spec": {"topics": ["orders", "__consumer_offsets"], "schedule": "0 3 * * 0", "suspend": False},
    "labels": {"team": "a"},
}
GROUPS = [
    {"name": "billing"},
    {
        "name": "fraud",
        "spec": {
            "groupId": "Fraud",
            "reset": {
                "id": "one",
                "strategy": "to-earliest",
                "dryRun": False,
                "topics": [{"topic": "orders", "partitions": [0]}, {"topic": "payments"}],
            },
        },
    },
]


def test_the_environment_is_put_before_every_name_of_a_topic_and_of_a_group(helm: Path) -> None:
    found = manifests(
        render(
            *(helm, CLUSTER, "--set", "topicPrefix=dev.,groupPrefix=d-"),
            *("--set-json", f"consumerGroups={json.dumps(GROUPS)}"),
            *("--set-json", f"verifications={json.dumps([VERIFICATION])}"),
        )
    )
    plain, odd = by_kind(found, "ConsumerGroup")
    assert plain["metadata"]["name"] == "d-billing"
    assert plain["spec"] == {"clusterRef": {"name": "chiplog"}}
    assert odd["metadata"]["name"] == "d-fraud"
    assert odd["spec"]["groupId"] == "d-Fraud"
    assert odd["spec"]["reset"] == {
        "id": "one",
        "strategy": "to-earliest",
        "dryRun": False,
        "topics": [{"topic": "dev.orders", "partitions": [0]}, {"topic": "dev.payments"}],
    }
    verification = one(found, "Verification")
    assert verification["metadata"]["name"] == "dev.weekly"
    assert verification["metadata"]["labels"]["team"] == "a"
    assert verification["spec"] == {
        "clusterRef": {"name": "chiplog"},
        "topics": ["dev.orders", "__consumer_offsets"],
        "schedule": "0 3 * * 0",
        "suspend": False,
    }


def test_values_of_an_earlier_release_still_render(helm: Path) -> None:
    """`helm upgrade --reuse-values` takes them as they were, without what was added since."""
    arguments = ("--set", "watchAllNamespaces=true", "--kube-version", "1.31")
    found = manifests(render(helm, OPERATOR, *arguments, "--set", "spark=null"))

    assert found == manifests(render(helm, OPERATOR, *arguments))
