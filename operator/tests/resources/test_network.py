"""Services, selectors and the disruption budget: each reaches the pods it should, and no others."""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_kube.api import Manifest
from chiplog_operator.resources.build import manifests
from chiplog_operator.resources.settings import BuildSettings

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]

EXTERNAL = {"name": "external", "type": "nodeport", "port": 9094}
PLAIN = {"name": "plain", "type": "internal", "port": 9092}


def pods(*made: Made) -> dict[str, dict[str, str]]:
    """Pod name -> labels, as the StatefulSets would make them."""
    return {
        f"{name}-0": manifest["spec"]["template"]["metadata"]["labels"]
        for some in made
        for (kind, name), manifest in some.items()
        if kind == "StatefulSet"
    }


def selected(selector: dict[str, str], among: dict[str, dict[str, str]]) -> set[str]:
    return {name for name, own in among.items() if selector.items() <= own.items()}


def service(made: Made, name: str) -> Any:
    return made["Service", name]["spec"]


def test_every_selector_finds_its_own_pods(cluster_with: ClusterWith, make: Make) -> None:
    """Beside a cluster whose name begins alike, and brokers whose ids do."""
    made = make(cluster_with("demo", listeners=[PLAIN, EXTERNAL]), 1, 2, 12)
    other = make(cluster_with("demo-broker", listeners=[PLAIN, EXTERNAL]), 1, 2, 12)
    everyone = pods(made, other)
    assert len(everyone) == 6
    own = {f"demo-broker-{broker}-0" for broker in (1, 2, 12)}
    for name in ("demo-kafka-brokers", "demo-kafka-bootstrap", "demo-kafka-external-bootstrap"):
        assert selected(service(made, name)["selector"], everyone) == own
    budget = made["PodDisruptionBudget", "demo-brokers"]["spec"]
    assert selected(budget["selector"]["matchLabels"], everyone) == own
    for broker in (1, 2, 12):
        one = {f"demo-broker-{broker}-0"}
        outside = service(made, f"demo-broker-{broker}-external")
        assert selected(outside["selector"], everyone) == one
        stateful_set = made["StatefulSet", f"demo-broker-{broker}"]["spec"]
        assert selected(stateful_set["selector"]["matchLabels"], everyone) == one


def test_a_drain_takes_one_broker_at_a_time(cluster_with: ClusterWith, make: Make) -> None:
    budget = make(cluster_with())["PodDisruptionBudget", "demo-brokers"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget


def test_every_service_publishes_brokers_that_are_not_ready(
    full_cluster: BrokerCluster, make: Make
) -> None:
    services = [m for (kind, _), m in make(full_cluster).items() if kind == "Service"]
    assert len(services) == 6
    assert all(one["spec"]["publishNotReadyAddresses"] is True for one in services)


def test_a_pod_has_its_dns_name_by_the_headless_service(
    cluster_with: ClusterWith, make: Make
) -> None:
    made = make(cluster_with())
    assert service(made, "demo-kafka-brokers")["clusterIP"] == "None"
    for broker in (1, 2, 3):
        stateful_set = made["StatefulSet", f"demo-broker-{broker}"]["spec"]
        assert stateful_set["serviceName"] == "demo-kafka-brokers"


def test_without_listeners_there_is_one_inside_and_nothing_outside(
    cluster_with: ClusterWith, make: Make
) -> None:
    made = make(cluster_with())
    for name in ("demo-kafka-brokers", "demo-kafka-bootstrap"):
        found = {port["name"]: port["port"] for port in service(made, name)["ports"]}
        assert found == {"internal": 9091, "plain": 9092}
    assert not [name for kind, name in made if kind == "Service" and "external" in name]


def test_services_have_the_listeners_of_their_side(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with(listeners=[PLAIN, EXTERNAL]))
    inside = {port["name"] for port in service(made, "demo-kafka-bootstrap")["ports"]}
    outside = {port["name"] for port in service(made, "demo-kafka-external-bootstrap")["ports"]}
    assert inside == {"internal", "plain"}
    assert outside == {"external"}


def test_every_service_leads_to_a_port_the_broker_listens_on(
    full_cluster: BrokerCluster, make: Make
) -> None:
    made = make(full_cluster)
    spec = made["StatefulSet", "payments-broker-1"]["spec"]["template"]["spec"]
    listening = {port["containerPort"] for port in spec["containers"][0]["ports"]}
    for (kind, name), manifest in made.items():
        if kind == "Service":
            targets = {port["targetPort"] for port in manifest["spec"]["ports"]}
            assert targets
            assert targets <= listening, name


def test_node_ports_count_from_their_base(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with(listeners=[{**EXTERNAL, "nodePortBase": 32090}]))
    found = {
        name: port.get("nodePort")
        for (kind, name), manifest in made.items()
        if kind == "Service"
        for port in manifest["spec"]["ports"]
    }
    assert found == {
        "demo-kafka-brokers": None,
        "demo-kafka-bootstrap": None,
        "demo-kafka-external-bootstrap": 32090,
        "demo-broker-1-external": 32091,
        "demo-broker-2-external": 32092,
        "demo-broker-3-external": 32093,
    }


def test_without_a_base_kubernetes_chooses(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with(listeners=[EXTERNAL]))
    for name in ("demo-kafka-external-bootstrap", "demo-broker-1-external"):
        assert service(made, name)["type"] == "NodePort"
        assert all("nodePort" not in port for port in service(made, name)["ports"])


def test_ports_that_the_cluster_has_had_are_asked_for(
    cluster_with: ClusterWith, settings: BuildSettings
) -> None:
    held = {BrokerId(0): {"external": 30_100}, BrokerId(2): {"external": 30_102, "gone": 30_999}}
    cluster = cluster_with(listeners=[EXTERNAL])
    made = manifests(cluster, [BrokerId(1), BrokerId(2)], settings, held)
    found = {
        one["metadata"]["name"]: [port.get("nodePort") for port in one["spec"]["ports"]]
        for one in made
        if one["kind"] == "Service" and one["spec"].get("type") == "NodePort"
    }
    assert found == {
        "demo-kafka-external-bootstrap": [30_100],
        "demo-broker-1-external": [None],
        "demo-broker-2-external": [30_102],
    }


@pytest.mark.parametrize(("broker", "port"), [(7, 32767), (8, None), (32767, None)])
def test_beyond_the_last_node_port_kubernetes_chooses(
    cluster_with: ClusterWith, make: Make, broker: int, port: int | None
) -> None:
    made = make(cluster_with(listeners=[{**EXTERNAL, "nodePortBase": 32760}]), broker)
    (found,) = service(made, f"demo-broker-{broker}-external")["ports"]
    assert found.get("nodePort") == port
