"""The StatefulSet and the pod: restricted, probed, told what it needs, never without its data."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels, names
from chiplog_kube.api import Manifest
from chiplog_operator.resources.stateful_set import must_be_recreated

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]


def stateful_set(made: Made, cluster: str = "demo", broker: int = 2) -> Manifest:
    return made["StatefulSet", f"{cluster}-broker-{broker}"]


def pod(made: Made, cluster: str = "demo", broker: int = 2) -> Any:
    return stateful_set(made, cluster, broker)["spec"]["template"]


def container(made: Made, cluster: str = "demo") -> Any:
    (only,) = pod(made, cluster)["spec"]["containers"]
    return only


def test_the_volume_claim_has_its_documented_name(cluster_with: ClusterWith, make: Make) -> None:
    manifest = stateful_set(make(cluster_with()))
    (claim,) = manifest["spec"]["volumeClaimTemplates"]
    made_by_kubernetes = f"{claim['metadata']['name']}-{manifest['metadata']['name']}-0"
    assert made_by_kubernetes == names.volume_claim("demo", BrokerId(2))


def test_kubernetes_neither_restarts_a_broker_nor_deletes_its_volume(
    cluster_with: ClusterWith, make: Make
) -> None:
    spec = stateful_set(make(cluster_with(storage={"size": "1Gi", "deleteClaim": False})))["spec"]
    assert spec["replicas"] == 1
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_the_volume_is_as_the_spec_says(cluster_with: ClusterWith, make: Make) -> None:
    (claim,) = stateful_set(make(cluster_with()))["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    assert "storageClassName" not in claim["spec"]  # the cluster's default one
    storage = {"size": "10Gi", "class": "quick"}
    (claim,) = stateful_set(make(cluster_with(storage=storage)))["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "quick"


@pytest.mark.parametrize(
    ("storage", "is_recreated"),
    [
        ({"size": "10Gi"}, False),
        ({"size": "10240Mi"}, False),
        ({"size": "11Gi"}, True),
        ({"size": "10Gi", "class": "quick"}, True),
    ],
)
def test_a_stateful_set_is_recreated_only_for_another_volume(
    cluster_with: ClusterWith, make: Make, storage: dict[str, str], is_recreated: bool
) -> None:
    live = deepcopy(stateful_set(make(cluster_with())))
    (claim,) = live["spec"]["volumeClaimTemplates"]
    # What the API server adds by itself.
    claim["spec"]["volumeMode"] = "Filesystem"
    claim["status"] = {"phase": "Pending"}
    wanted = stateful_set(make(cluster_with(storage=storage, config={"num.partitions": 2})))
    assert must_be_recreated(live, wanted) is is_recreated


def test_the_pod_is_restricted(full_cluster: BrokerCluster, make: Make) -> None:
    """Each rule of the Pod Security Standard `restricted`, and a read-only root beside it."""
    made = make(full_cluster)
    spec, only = pod(made, "payments")["spec"], container(made, "payments")
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["runAsGroup"] == 10001
    assert spec["securityContext"]["fsGroup"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPort" not in port for port in only["ports"])
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "secret", "projected", "emptyDir"}


def test_the_only_token_is_the_projected_one(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with())
    account = made["ServiceAccount", "demo-broker-2"]
    assert account["automountServiceAccountToken"] is False
    assert pod(made)["spec"]["automountServiceAccountToken"] is False
    assert pod(made)["spec"]["serviceAccountName"] == "demo-broker-2"
    (mount,) = [m for m in container(made)["volumeMounts"] if m["name"] == "api-access"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    (volume,) = [v for v in pod(made)["spec"]["volumes"] if v["name"] == "api-access"]
    paths = [
        item["path"]
        for source in volume["projected"]["sources"]
        for kind in source.values()
        for item in kind.get("items", [kind])
    ]
    assert sorted(paths) == ["ca.crt", "namespace", "token"]


def test_every_mount_has_its_volume_and_only_what_is_written_can_be(
    cluster_with: ClusterWith, make: Make
) -> None:
    made = make(cluster_with())
    spec = stateful_set(made)["spec"]
    volumes = {volume["name"] for volume in pod(made)["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    mounts = container(made)["volumeMounts"]
    assert {mount["name"] for mount in mounts} == volumes | claims
    writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
    assert writable == {"/var/lib/chiplog", "/tmp"}  # noqa: S108 - in the pod
    sources = {v["name"]: v for v in pod(made)["spec"]["volumes"]}
    assert ("ConfigMap", sources["config"]["configMap"]["name"]) in made
    assert ("Secret", sources["internal"]["secret"]["secretName"]) in made


def test_the_broker_is_told_who_and_where_it_is(cluster_with: ClusterWith, make: Make) -> None:
    only = container(make(cluster_with()))
    assert only["args"] == [
        *("--cluster", "demo"),
        *("--broker-id", "2"),
        *("--config", "/etc/chiplog/server.properties"),
        *("--data", "/var/lib/chiplog"),
        *("--credentials", "/etc/chiplog-internal"),
        *("--health-address", "0.0.0.0:8080"),
        *("--metrics-address", "0.0.0.0:9404"),
    ]
    environment = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in only["env"]}
    assert environment == {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
        "NODE_NAME": "spec.nodeName",
    }
    assert only["terminationMessagePath"] == "/dev/termination-log"
    assert only["terminationMessagePolicy"] == "File"


def test_recovery_may_take_hours_and_a_slow_answer_kills_nothing(
    cluster_with: ClusterWith, make: Make
) -> None:
    only = container(make(cluster_with()))
    startup, liveness, readiness = (
        only[f"{name}Probe"] for name in ("startup", "liveness", "readiness")
    )
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 12 * 3600
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    for probe, path in ((startup, "/startupz"), (liveness, "/livez"), (readiness, "/readyz")):
        assert probe["httpGet"]["path"] == path
        assert ports[probe["httpGet"]["port"]] == 8080


def test_a_listener_may_have_any_name(cluster_with: ClusterWith, make: Make) -> None:
    """The name of a container's port needs a letter, and has at most 15 characters."""
    listeners = [
        {"name": name, "type": "internal", "port": port}
        for name, port in (("9092", 9092), ("metrics", 9192), ("elevenchars", 9193), ("health", 1))
    ]
    ports = container(make(cluster_with(listeners=listeners)))["ports"]
    port_names = [port["name"] for port in ports]
    assert len(set(port_names)) == len(port_names)
    assert len({port["containerPort"] for port in ports}) == len(ports)
    assert all(len(name) <= 15 for name in port_names)
    assert all(any(letter.isalpha() for letter in name) for name in port_names)


def test_the_users_template_is_carried_out(full_cluster: BrokerCluster, make: Make) -> None:
    template = pod(make(full_cluster), "payments")
    spec = template["spec"]
    assert template["metadata"]["labels"]["team"] == "payments"
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [{"key": "dedicated", "value": "kafka", "effect": "NoSchedule"}]
    assert spec["priorityClassName"] == "important"
    assert spec["terminationGracePeriodSeconds"] == 90
    (only,) = spec["containers"]
    assert only["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "2Gi"},
    }


def test_the_users_template_changes_nothing_of_ours(cluster_with: ClusterWith, make: Make) -> None:
    ours = pod(make(cluster_with()))["metadata"]
    theirs = {
        "labels": dict.fromkeys(ours["labels"], "mine"),
        "annotations": {labels.REVISION: "mine", "note": "kept"},
    }
    merged = pod(make(cluster_with(template=theirs)))["metadata"]
    assert merged["labels"] == ours["labels"]
    assert merged["annotations"][labels.REVISION] != "mine"
    assert merged["annotations"]["note"] == "kept"


def test_images_and_their_secrets(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with())
    assert container(made)["image"] == "chiplog/broker:1"
    assert container(made)["imagePullPolicy"] == "IfNotPresent"
    assert "imagePullSecrets" not in pod(made)["spec"]
    made = make(
        cluster_with(
            image="mine/broker:2",
            imagePullPolicy="Always",
            template={"imagePullSecrets": ["registry"]},
        )
    )
    assert container(made)["image"] == "mine/broker:2"
    assert container(made)["imagePullPolicy"] == "Always"
    assert pod(made)["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_brokers_are_spread_but_never_left_out(cluster_with: ClusterWith, make: Make) -> None:
    assert "topologySpreadConstraints" not in pod(make(cluster_with()))["spec"]
    made = make(cluster_with(rack={"topologyKey": "topology.kubernetes.io/zone"}))
    (spread,) = pod(made)["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    rules = pod(made)["spec"]["affinity"]["podAntiAffinity"]
    assert list(rules) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    (term,) = rules["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    own = pod(made)["metadata"]["labels"].items()
    for selector in (spread["labelSelector"], term["podAffinityTerm"]["labelSelector"]):
        assert selector["matchLabels"].items() <= own
        assert labels.BROKER_ID not in selector["matchLabels"]
