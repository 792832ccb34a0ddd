"""Services and Ingresses of listeners behind load balancers and proxies."""

from collections.abc import Callable
from typing import Any

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels
from chiplog_kube.api import Manifest
from chiplog_operator.resources.outside import PASSTHROUGH, tls_routes
from tests.resources.test_network import pods, selected

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]

BALANCED: dict[str, Any] = {"name": "lb", "type": "loadbalancer", "port": 9094}
ROUTED: dict[str, Any] = {
    "name": "sni",
    "type": "ingress",
    "port": 9095,
    "tls": True,
    "configuration": {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {"host": "kafka.example.com"},
        "brokers": [{"broker": 2, "host": "two.example.com"}],
    },
}


def of_kind(made: Made, kind: str, listener: str) -> dict[str, Any]:
    """The listener's own objects, by the ends of their names."""
    start = f"demo-{listener}-ext"
    return {
        name.removeprefix(start): manifest
        for (of, name), manifest in made.items()
        if of == kind and name.startswith(start)
    }


def test_a_load_balancer_for_each_broker_and_one_for_any(
    cluster_with: ClusterWith, make: Make
) -> None:
    made = make(cluster_with(listeners=[BALANCED]), 1, 2, 12)
    services = of_kind(made, "Service", "lb")
    assert set(services) == {"", "-1", "-2", "-12"}
    everyone = pods(made)
    for end, service in services.items():
        spec = service["spec"]
        assert spec["type"] == "LoadBalancer"
        port = {"name": "lb", "port": 9094, "targetPort": 9094, "protocol": "TCP"}
        assert spec["ports"] == [port]
        assert not {"loadBalancerClass", "externalTrafficPolicy"} & set(spec)
        found = selected(spec["selector"], everyone)
        assert found == (set(everyone) if not end else {f"demo-broker{end}-0"})
    assert labels.BROKER_ID not in services[""]["metadata"]["labels"]
    assert services["-2"]["metadata"]["labels"][labels.BROKER_ID] == "2"


def test_every_setting_of_a_load_balancer(cluster_with: ClusterWith, make: Make) -> None:
    configuration = {
        "class": "example.com/lb",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "bootstrap": {"labels": {"team": "a", labels.CLUSTER: "b"}, "annotations": {"a": "b"}},
        "brokers": [{"broker": 2, "annotations": {"ip": "two"}, "labels": {"two": ""}}],
    }
    listener = {**BALANCED, "advertisedPort": 9000, "configuration": configuration}
    services = of_kind(make(cluster_with(listeners=[listener])), "Service", "lb")
    for service in services.values():
        spec = service["spec"]
        assert spec["loadBalancerClass"] == "example.com/lb"
        assert spec["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
        assert spec["externalTrafficPolicy"] == "Local"
        assert [(one["port"], one["targetPort"]) for one in spec["ports"]] == [(9000, 9094)]
    meta = services[""]["metadata"]
    assert meta["labels"]["team"] == "a"
    assert meta["labels"][labels.CLUSTER] == "demo", "by it the operator finds the object"
    assert set(meta["annotations"]) == {"a", labels.MANIFEST_HASH}
    assert services["-2"]["metadata"]["annotations"]["ip"] == "two"
    assert "ip" not in services["-1"]["metadata"]["annotations"]


def test_a_load_balancer_less(cluster_with: ClusterWith, make: Make) -> None:
    listener = {**BALANCED, "configuration": {"createBootstrapService": False}}
    made = make(cluster_with(listeners=[listener]))
    assert set(of_kind(made, "Service", "lb")) == {"-1", "-2", "-3"}


def test_two_listeners_have_their_own_load_balancers(cluster_with: ClusterWith, make: Make) -> None:
    other = {**BALANCED, "name": "lb2", "port": 9095}
    made = make(cluster_with(listeners=[BALANCED, other]), 1)
    assert set(of_kind(made, "Service", "lb")) == {"", "-1"}
    assert set(of_kind(made, "Service", "lb2")) == {"", "-1"}


def test_an_ingress_leads_by_the_host_name_to_a_service(
    cluster_with: ClusterWith, make: Make
) -> None:
    made = make(cluster_with(listeners=[ROUTED]), 1, 2)
    services, ingresses = of_kind(made, "Service", "sni"), of_kind(made, "Ingress", "sni")
    assert set(services) == set(ingresses) == {"", "-1", "-2"}
    hosts = {"": "kafka.example.com", "-1": "broker-1.example.com", "-2": "two.example.com"}
    for end, ingress in ingresses.items():
        assert PASSTHROUGH.items() <= ingress["metadata"]["annotations"].items()
        spec = ingress["spec"]
        (rule,) = spec["rules"]
        assert spec["tls"] == [{"hosts": [rule["host"]]}]
        assert rule["host"] == hosts[end]
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert backend["name"] == f"demo-sni-ext{end}"
        (port,) = services[end]["spec"]["ports"]
        assert port["port"] == backend["port"]["number"] == port["targetPort"] == 9095
        assert services[end]["spec"]["type"] == "ClusterIP"
        assert "ingressClassName" not in spec


def test_the_class_and_annotations_of_an_ingress(cluster_with: ClusterWith, make: Make) -> None:
    own = {"haproxy.org/ssl-passthrough": "true", next(iter(PASSTHROUGH)): "false"}
    bootstrap = {"host": "kafka.example.com", "annotations": own}
    configuration = {**ROUTED["configuration"], "class": "haproxy", "bootstrap": bootstrap}
    listener = {**ROUTED, "configuration": configuration}
    made = make(cluster_with(listeners=[listener]), 1)
    ingress = made["Ingress", "demo-sni-ext"]
    assert ingress["spec"]["ingressClassName"] == "haproxy"
    assert own.items() <= ingress["metadata"]["annotations"].items()
    service = made["Service", "demo-sni-ext"]["metadata"]
    assert set(service["annotations"]) == {labels.MANIFEST_HASH}


def test_brokers_do_not_restart_for_settings_of_load_balancers(
    cluster_with: ClusterWith, make: Make
) -> None:
    def revision(configuration: dict[str, Any]) -> object:
        made = make(cluster_with(listeners=[{**BALANCED, "configuration": configuration}]), 1)
        template = made["StatefulSet", "demo-broker-1"]["spec"]["template"]
        return template["metadata"]["annotations"][labels.REVISION]

    changed = {"class": "a", "brokers": [{"broker": 1, "advertisedHost": "one.example.com"}]}
    assert revision({}) == revision(changed)


def test_a_tls_route_leads_by_the_host_name_to_a_service(cluster_with: ClusterWith) -> None:
    gateway = {"name": "kafka", "sectionName": "tls"}
    configuration = {
        **ROUTED["configuration"],
        "parentRefs": [gateway],
        "bootstrap": {"host": "kafka.example.com", "labels": {"team": "a"}},
    }
    cluster = cluster_with(
        listeners=[{**ROUTED, "type": "tlsroute", "configuration": configuration}]
    )
    bootstrap, first, second = tls_routes(cluster, [BrokerId(1), BrokerId(2)])
    hosts = ["kafka.example.com", "broker-1.example.com", "two.example.com"]
    for route, end, host in zip((bootstrap, first, second), ("", "-1", "-2"), hosts, strict=True):
        assert (route["apiVersion"], route["kind"]) == ("gateway.networking.k8s.io/v1", "TLSRoute")
        assert route["metadata"]["name"] == f"demo-sni-ext{end}"
        assert route["spec"] == {
            "parentRefs": [gateway],
            "hostnames": [host],
            "rules": [{"backendRefs": [{"name": f"demo-sni-ext{end}", "port": 9095}]}],
        }
    assert bootstrap["metadata"]["labels"]["team"] == "a"
    assert first["metadata"]["labels"][labels.BROKER_ID] == "1"
