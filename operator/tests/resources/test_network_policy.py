"""The NetworkPolicy, judged packet by packet: who reaches which port of a broker.

The judge is written from the API's documentation of a NetworkPolicy, not from the builder.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import labels, ports
from chiplog_kube.api import Manifest
from chiplog_operator.resources.settings import BuildSettings

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]
Pod = tuple[str, Mapping[str, str]]
"""Namespace and labels."""

BROKER: Pod = ("team", {labels.CLUSTER: "demo", labels.COMPONENT: "broker"})
OTHER_CLUSTER: Pod = ("team", {labels.CLUSTER: "other", labels.COMPONENT: "broker"})
SAME_NAME_ELSEWHERE: Pod = ("elsewhere", BROKER[1])
OPERATOR: Pod = ("chiplog-system", {"app.kubernetes.io/name": "chiplog-operator"})
FALSE_OPERATOR: Pod = ("team", OPERATOR[1])
NEIGHBOUR: Pod = ("chiplog-system", {"app.kubernetes.io/name": "prometheus"})
CLIENT: Pod = ("shop", {"app": "till"})
EVERYBODY = (
    *(BROKER, OTHER_CLUSTER, SAME_NAME_ELSEWHERE, OPERATOR, FALSE_OPERATOR, NEIGHBOUR, CLIENT),
)
CHECKOUT = Path(__file__).resolve().parents[3]
PLAIN = {"name": "plain", "type": "internal", "port": 9092}
EXTERNAL = {"name": "external", "type": "nodeport", "port": 9094}


def policy(made: Made) -> Any:
    return made["NetworkPolicy", "demo-brokers"]["spec"]


def matches(selector: Mapping[str, Any], own: Mapping[str, str]) -> bool:
    for one in selector.get("matchExpressions", ()):
        assert one["operator"] == "In", "the judge knows no other"
        if own.get(one["key"]) not in one["values"]:
            return False
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= own.items()


def is_meant(peer: Mapping[str, Any], pod: Pod, policy_namespace: str = "team") -> bool:
    namespace, own = pod
    if "namespaceSelector" in peer:
        its_labels = {"kubernetes.io/metadata.name": namespace, "tier": namespace[:4]}
        if not matches(peer["namespaceSelector"], its_labels):
            return False
    elif namespace != policy_namespace:
        return False
    return matches(peer.get("podSelector", {}), own)


def reaching(spec: Any, port: int) -> tuple[Pod, ...]:
    """Who of everybody reaches a port of the brokers."""
    return tuple(
        pod
        for pod in EVERYBODY
        if any(
            {"protocol": "TCP", "port": port} in rule["ports"]
            and ("from" not in rule or any(is_meant(peer, pod) for peer in rule["from"]))
            for rule in spec["ingress"]
        )
    )


def test_only_brokers_of_the_cluster_reach_the_internal_listener(
    cluster_with: ClusterWith, make: Make
) -> None:
    assert reaching(policy(make(cluster_with())), ports.INTERNAL) == (BROKER,)


def test_only_the_operator_reaches_the_health_port(cluster_with: ClusterWith, make: Make) -> None:
    assert reaching(policy(make(cluster_with())), ports.HEALTH) == (OPERATOR,)


def test_the_operators_own_port_is_open_where_brokers_have_certificates(
    cluster_with: ClusterWith, make: Make
) -> None:
    secured = policy(make(cluster_with(listeners=[{**PLAIN, "tls": True}])))
    assert reaching(secured, ports.OPERATOR) == (OPERATOR,)
    assert reaching(secured, ports.HEALTH) == (OPERATOR,)
    assert reaching(policy(make(cluster_with())), ports.OPERATOR) == ()


def test_everybody_reaches_metrics_and_the_clients_listeners(
    cluster_with: ClusterWith, make: Make
) -> None:
    spec = policy(make(cluster_with(listeners=[PLAIN, EXTERNAL])))
    for port in (ports.METRICS, 9092, 9094):
        assert reaching(spec, port) == EVERYBODY
    assert reaching(policy(make(cluster_with())), ports.PLAIN) == EVERYBODY


def test_nobody_reaches_a_port_that_no_listener_has(cluster_with: ClusterWith, make: Make) -> None:
    spec = policy(make(cluster_with(listeners=[PLAIN])))
    assert spec["policyTypes"] == ["Ingress"]
    assert reaching(spec, 9094) == ()


def test_it_is_about_the_brokers_pods_only(cluster_with: ClusterWith, make: Make) -> None:
    made = make(cluster_with())
    selector = policy(made)["podSelector"]
    template = made["StatefulSet", "demo-broker-1"]["spec"]["template"]
    assert matches(selector, template["metadata"]["labels"])
    assert not matches(selector, OTHER_CLUSTER[1])
    assert not matches(selector, OPERATOR[1])


PEERS: list[tuple[dict[str, Any], tuple[Pod, ...]]] = [
    ({"namespaceSelector": {}}, EVERYBODY),
    ({"podSelector": {}}, (BROKER, OTHER_CLUSTER, FALSE_OPERATOR)),
    ({"namespaceSelector": {"matchLabels": {"tier": "shop"}}}, (CLIENT,)),
    (
        {
            "namespaceSelector": {},
            "podSelector": {
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["till"]}]
            },
        },
        (CLIENT,),
    ),
]


@pytest.mark.parametrize(("peer", "expected"), PEERS, ids=[str(peer) for peer, _ in PEERS])
def test_a_listeners_peers_are_kept_as_the_user_wrote_them(
    cluster_with: ClusterWith, make: Make, peer: dict[str, Any], expected: tuple[Pod, ...]
) -> None:
    listeners = [{**PLAIN, "networkPolicyPeers": [peer]}, EXTERNAL]
    spec = policy(make(cluster_with(listeners=listeners)))
    (rule,) = [one for one in spec["ingress"] if one["ports"][0]["port"] == 9092]
    assert rule["from"] == [peer]
    assert reaching(spec, 9092) == expected
    assert reaching(spec, 9094) == EVERYBODY


def test_addresses_are_kept_as_the_user_wrote_them(cluster_with: ClusterWith, make: Make) -> None:
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    listeners = [{**PLAIN, "networkPolicyPeers": [block]}]
    spec = policy(make(cluster_with(listeners=listeners)))
    assert [rule["from"] for rule in spec["ingress"] if rule["ports"][0]["port"] == 9092] == [
        [block]
    ]


def test_there_is_none_where_it_is_turned_off_or_the_operator_is_no_pod(
    cluster_with: ClusterWith, make: Make, settings: BuildSettings
) -> None:
    off = make(cluster_with(networkPolicy={"enabled": False}))
    outside = make(cluster_with(), using=replace(settings, operator_namespace=""))
    for made in (off, outside):
        assert "NetworkPolicy" not in {kind for kind, _ in made}
    assert policy(make(cluster_with(networkPolicy={}))) == policy(make(cluster_with()))


def test_the_chart_gives_the_operators_pods_the_label_that_is_asked_for(
    cluster_with: ClusterWith, make: Make
) -> None:
    """Where the chart's label changes, the operator would lock itself out."""
    helpers = (CHECKOUT / "charts/chiplog-operator/templates/_helpers.tpl").read_text()
    selector = helpers.partition('define "chiplog-operator.selector" -}}')[2].partition("{{- end")
    (rule,) = [
        one
        for one in policy(make(cluster_with()))["ingress"]
        if one["ports"][0]["port"] == ports.HEALTH
    ]
    (peer,) = rule["from"]
    ((key, value),) = peer["podSelector"]["matchLabels"].items()
    (line,) = [line for line in selector[0].splitlines() if line.startswith(key)]
    assert yaml.safe_load(line) == {key: value}
