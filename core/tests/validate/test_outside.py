"""Settings of listeners for clients outside of Kubernetes: which type has which."""

from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.validate.broker_cluster import check_cluster

INGRESS: dict[str, Any] = {
    "type": "ingress",
    "tls": True,
    "configuration": {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {"host": "kafka.example.com"},
    },
}


def problems(configuration: dict[str, Any] | None = None, **listener: Any) -> list[str]:
    one = {"name": "ext", "port": 9094, **listener}
    if configuration is not None:
        one["configuration"] = configuration
    cluster = BrokerCluster.from_manifest(
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "shop"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}, "listeners": [one]},
        }
    )
    found = [str(problem) for problem in check_cluster(cluster)]
    assert all(one.startswith("spec.listeners[0].") for one in found)
    return [one.removeprefix("spec.listeners[0].") for one in found]


def test_every_setting_of_load_balancers() -> None:
    configuration = {
        "class": "example.com/lb",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
        "createBootstrapService": False,
        "advertisedHostTemplate": "b{nodeId}.example.com",
        "bootstrap": {
            "alternativeNames": ["kafka.example.com"],
            "labels": {"team": "a"},
            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
        },
        "brokers": [
            {
                "broker": 1,
                "advertisedHost": "one.example.com",
                "advertisedPort": 9001,
                "annotations": {"external-dns.alpha.kubernetes.io/hostname": "one.example.com"},
            }
        ],
    }
    assert not problems(configuration, type="loadbalancer", tls=True, advertisedPort=9000)
    assert not problems(type="loadbalancer")


def test_an_ingress_needs_names_and_tls() -> None:
    assert not problems(**INGRESS)
    assert problems(type="ingress") == [
        "tls is false, but type ingress needs TLS: set it to true",
        (
            "configuration.hostTemplate is missing, but type ingress needs it: set it to a DNS "
            "name like broker-{nodeId}.kafka.example.com"
        ),
        (
            "configuration.bootstrap.host is missing, but type ingress needs it: set it to a DNS "
            "name like bootstrap.kafka.example.com"
        ),
    ]


@pytest.mark.parametrize(
    ("listener", "problem"),
    [
        (
            {"type": "nodeport", "advertisedPort": 9000},
            (
                "advertisedPort is set, but only types loadbalancer, ingress and tlsroute use it: "
                "remove it"
            ),
        ),
        (
            {"type": "loadbalancer", "advertisedHost": "a.example.com"},
            (
                "advertisedHost is set, but brokers behind loadbalancer need a host each: set "
                "configuration.advertisedHostTemplate instead"
            ),
        ),
        (
            {"type": "nodeport", "configuration": {"class": "a"}},
            "configuration.class is set, but only types loadbalancer and ingress use it: remove it",
        ),
        (
            {"type": "internal", "configuration": {"bootstrap": {"annotations": {"a": "b"}}}},
            (
                "configuration.bootstrap.annotations is set, but only types loadbalancer, ingress "
                "and tlsroute use it: remove it"
            ),
        ),
        (
            {
                "type": "nodeport",
                "configuration": {"brokers": [{"broker": 1, "labels": {"a": ""}}]},
            },
            (
                "configuration.brokers[0].labels is set, but only types loadbalancer, ingress and "
                "tlsroute use it: remove it"
            ),
        ),
        (
            {"type": "internal", "configuration": {"createBootstrapService": False}},
            (
                "configuration.createBootstrapService is set, but only type loadbalancer uses it: "
                "remove it"
            ),
        ),
        (
            {"type": "loadbalancer", "configuration": {"hostTemplate": "b{nodeId}.example.com"}},
            (
                "configuration.hostTemplate is set, but only types ingress and tlsroute use it: "
                "remove it"
            ),
        ),
        (
            {"type": "nodeport", "configuration": {"brokers": [{"broker": 1, "host": "a.b"}]}},
            (
                "configuration.brokers[0].host is set, but only types ingress and tlsroute use it: "
                "remove it"
            ),
        ),
        (
            {"type": "internal", "configuration": {"advertisedHostTemplate": "{nodeId}.b"}},
            (
                "configuration.advertisedHostTemplate is set, but only types nodeport, "
                "loadbalancer, ingress and tlsroute use it: remove it"
            ),
        ),
        (
            {
                "type": "internal",
                "configuration": {"brokers": [{"broker": 1, "advertisedPort": 9000}]},
            },
            (
                "configuration.brokers[0].advertisedPort is set, but only types nodeport, "
                "loadbalancer, ingress and tlsroute use it: remove it"
            ),
        ),
        (
            {
                "type": "loadbalancer",
                "configuration": {"bootstrap": {"alternativeNames": ["a.example.com"]}},
            },
            (
                "configuration.bootstrap.alternativeNames is set, but the listener has no TLS: "
                "remove it, or set tls to true"
            ),
        ),
        (
            {
                "type": "loadbalancer",
                "configuration": {"bootstrap": {"labels": {"app.kubernetes.io/name": "a"}}},
            },
            (
                "configuration.bootstrap.labels[app.kubernetes.io/name] is reserved: remove it, "
                "or use a domain of your own, like example.com/team"
            ),
        ),
        (
            {
                "type": "loadbalancer",
                "configuration": {
                    "brokers": [{"broker": 2, "annotations": {"chiplog.dev/revision": "a"}}]
                },
            },
            (
                "configuration.brokers[0].annotations[chiplog.dev/revision] is reserved: remove "
                "it, or use a domain of your own, like example.com/team"
            ),
        ),
    ],
)
def test_a_setting_that_has_no_effect_is_refused(listener: dict[str, Any], problem: str) -> None:
    assert problems(**listener) == [problem]


def test_a_tls_route_needs_a_gateway_and_what_an_ingress_needs() -> None:
    routed = {**INGRESS, "type": "tlsroute"}
    assert problems(**routed) == [
        (
            "configuration.parentRefs is missing, but type tlsroute needs it: name the Gateway, "
            "like name: kafka"
        )
    ]
    given = {**INGRESS["configuration"], "parentRefs": [{"name": "kafka"}]}
    assert not problems(given, type="tlsroute", tls=True)
    assert problems(given, type="ingress", tls=True) == [
        "configuration.parentRefs is set, but only type tlsroute uses it: remove it"
    ]
    assert len(problems(type="tlsroute")) == 4


def test_an_ingress_must_not_change_the_proxys_configuration() -> None:
    """By these annotations a user of a namespace reads the Secrets of all (CVE-2021-25742)."""
    snippet = "nginx.ingress.kubernetes.io/configuration-snippet"
    bootstrap = {"host": "kafka.example.com", "annotations": {snippet: "alias /;"}}
    configuration = {**INGRESS["configuration"], "bootstrap": bootstrap}
    assert problems(configuration, type="ingress", tls=True) == [
        (
            f"configuration.bootstrap.annotations[{snippet}] is not allowed: remove it: it would "
            "change the proxy's configuration for everybody"
        )
    ]


def test_hosts_of_single_brokers_are_names_or_addresses() -> None:
    brokers = [
        {"broker": 1, "host": "one.example.com", "advertisedHost": "192.0.2.1"},
        {"broker": 2, "host": "Two.example.com", "advertisedHost": "two example"},
    ]
    assert problems({**INGRESS["configuration"], "brokers": brokers}, type="ingress", tls=True) == [
        "configuration.brokers[1].host is 'Two.example.com': write a DNS name in lower case",
        (
            "configuration.brokers[1].advertisedHost is 'two example': write a DNS name or an IP "
            "address"
        ),
    ]


def test_no_two_brokers_have_one_host_name() -> None:
    """The proxy would send clients to another broker than the one that they asked for."""
    brokers = [
        {"broker": 1, "host": "broker-2.example.com"},
        {"broker": 3, "host": "kafka.example.com"},
        {"broker": 4, "host": "four.example.com"},
        {"broker": 5, "host": "four.example.com"},
        {"broker": 6, "host": "broker-6.example.com"},
    ]
    given = {**INGRESS["configuration"], "brokers": brokers}
    remedy = "choose another host name"
    assert problems(given, type="ingress", tls=True) == [
        f"configuration.brokers[0].host is broker-2.example.com, the host of broker 2: {remedy}",
        f"configuration.brokers[1].host is kafka.example.com, bootstrap.host: {remedy}",
        f"configuration.brokers[3].host is four.example.com, the host of broker 4: {remedy}",
    ]
    swapped = [
        {"broker": 1, "host": "broker-2.example.com"},
        {"broker": 2, "host": "broker-1.example.com"},
    ]
    given = {**INGRESS["configuration"], "brokers": swapped}
    assert not problems(given, type="ingress", tls=True)
    bootstrap = {"host": "broker-7.example.com"}
    given = {**INGRESS["configuration"], "bootstrap": bootstrap}
    assert problems(given, type="ingress", tls=True) == [
        f"configuration.bootstrap.host is broker-7.example.com, the host of broker 7: {remedy}"
    ]


def test_a_host_has_no_port() -> None:
    given = {
        "bootstrap": {"alternativeNames": ["2001:db8::1", "kafka.example.com:9094"]},
        "brokers": [{"broker": 1, "advertisedHost": "one.example.com:9094"}],
    }
    remedy = "write a DNS name or an IP address"
    assert problems(given, type="loadbalancer", tls=True) == [
        f"configuration.bootstrap.alternativeNames[1] is 'kafka.example.com:9094': {remedy}",
        f"configuration.brokers[0].advertisedHost is 'one.example.com:9094': {remedy}",
    ]


@pytest.mark.parametrize("template", ["a..{nodeId}.example.com", "{nodeId}-.example.com"])
def test_a_template_makes_names(template: str) -> None:
    """The API server refuses an Ingress with another host, and nothing leads to the broker."""
    given = {**INGRESS["configuration"], "hostTemplate": template}
    assert problems({**given, "advertisedHostTemplate": template}, type="ingress", tls=True) == [
        f"configuration.{field} is {template!r}: write a DNS name in lower case"
        for field in ("hostTemplate", "advertisedHostTemplate")
    ]


def test_two_listeners_of_one_proxy_need_other_hosts() -> None:
    """Copied settings would lead clients of one listener to the other."""

    def found(**configuration: Any) -> list[str]:
        given = {**INGRESS["configuration"], **configuration}
        cluster = BrokerCluster.from_manifest(
            {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "BrokerCluster",
                "metadata": {"name": "demo", "namespace": "shop"},
                "spec": {
                    "replicas": 3,
                    "storage": {"size": "1Gi"},
                    "listeners": [
                        {**INGRESS, "name": "one", "port": 9094},
                        {**INGRESS, "name": "two", "port": 9095, "configuration": given},
                    ],
                },
            }
        )
        return [str(problem) for problem in check_cluster(cluster)]

    place = "spec.listeners[1].configuration"
    remedy = "choose another host name"
    assert found() == [
        f"{place}.hostTemplate is that of listener one: {remedy}",
        f"{place}.bootstrap.host is that of listener one: {remedy}",
    ]
    assert not found(**{"class": "another"})
    bootstrap = {"host": "two.example.com"}
    assert not found(hostTemplate="two-{nodeId}.example.com", bootstrap=bootstrap)
