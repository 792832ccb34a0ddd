"""Where clients outside of Kubernetes find brokers behind load balancers and proxies."""

from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.planner.brokers.waiting_listeners import waiting_listeners
from chiplog_core.validate.outside import NO_TLS_ROUTES
from tests.planner.brokers.test_brokers import condition, endpoints, running
from tests.planner.model import Kubernetes

BALANCED = {"name": "lb", "type": "loadbalancer", "port": 9094}
ROUTED = {
    "name": "sni",
    "type": "ingress",
    "port": 9095,
    "tls": True,
    "configuration": {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {"host": "kafka.example.com"},
    },
}
ADDRESSES = {
    "demo-lb-ext": "192.0.2.10",
    "demo-lb-ext-1": "192.0.2.1",
    "demo-lb-ext-2": "192.0.2.2",
}
MOVED = {**ADDRESSES, "demo-lb-ext": "192.0.2.20", "demo-lb-ext-1": "one.example.com"}


def balanced(replicas: int = 2, configuration: Any = None, **fields: Any) -> Kubernetes:
    listener = {**BALANCED, **fields, "configuration": configuration or {}}
    return running(replicas, listeners=[listener])


def bootstrap(kubernetes: Kubernetes) -> dict[str, str]:
    return {one.name: one.bootstrap_servers for one in kubernetes.cluster.status.listeners}


def why_not_ready(kubernetes: Kubernetes) -> str:
    found = condition(kubernetes, "Ready")
    return "" if found.status == "True" else f"{found.reason}: {found.message}"


def test_brokers_advertise_the_addresses_of_their_load_balancers_when_there_are_any() -> None:
    kubernetes = balanced()
    assert set(endpoints(kubernetes, 1)) == {"internal"}
    assert bootstrap(kubernetes) == {}
    waiting = why_not_ready(kubernetes)
    assert waiting.startswith("LoadBalancerPending: listener lb waits for the address")
    assert "Service demo-lb-ext, demo-lb-ext-1, demo-lb-ext-2:" in waiting

    some = {name: ADDRESSES[name] for name in ("demo-lb-ext", "demo-lb-ext-2")}
    kubernetes.settle(service_addresses=some)
    assert set(endpoints(kubernetes, 1)) == {"internal"}
    assert endpoints(kubernetes, 2)["lb"] == "192.0.2.2:9094"
    assert bootstrap(kubernetes) == {"lb": "192.0.2.10:9094"}
    assert "Service demo-lb-ext-1:" in why_not_ready(kubernetes)

    kubernetes.settle(service_addresses=ADDRESSES)
    assert endpoints(kubernetes, 1)["lb"] == "192.0.2.1:9094"
    assert why_not_ready(kubernetes) == ""


def test_an_address_that_changes_is_advertised_and_one_that_is_lost_stays() -> None:
    kubernetes = balanced()
    kubernetes.settle(service_addresses=ADDRESSES)

    kubernetes.settle(service_addresses=MOVED)
    assert endpoints(kubernetes, 1)["lb"] == "one.example.com:9094"
    assert bootstrap(kubernetes) == {"lb": "192.0.2.20:9094"}

    kubernetes.settle(service_addresses={})
    assert endpoints(kubernetes, 1)["lb"] == "one.example.com:9094"
    assert bootstrap(kubernetes) == {"lb": "192.0.2.20:9094"}
    assert "waits for the address" in why_not_ready(kubernetes)


def test_with_tls_an_address_waits_for_the_certificate() -> None:
    kubernetes = balanced(tls=True)
    kubernetes.settle(service_addresses=ADDRESSES)
    assert set(endpoints(kubernetes, 1)) == {"internal"}
    assert bootstrap(kubernetes) == {}
    assert "does not advertise the new address of Service demo-lb-ext," in why_not_ready(kubernetes)

    shown = {
        BrokerId(1): frozenset({"192.0.2.10", "192.0.2.1"}),
        BrokerId(2): frozenset({"192.0.2.2"}),
    }
    kubernetes.settle(service_addresses=ADDRESSES, certified_hosts=shown)
    assert endpoints(kubernetes, 1)["lb"] == "192.0.2.1:9094"
    assert endpoints(kubernetes, 2)["lb"] == "192.0.2.2:9094"
    assert bootstrap(kubernetes) == {}, "broker 2 does not show it yet"
    shown[BrokerId(2)] |= {"192.0.2.10"}
    kubernetes.settle(service_addresses=ADDRESSES, certified_hosts=shown)
    assert bootstrap(kubernetes) == {"lb": "192.0.2.10:9094"}
    assert why_not_ready(kubernetes) == ""

    kubernetes.settle(service_addresses=MOVED)
    assert endpoints(kubernetes, 1)["lb"] == "192.0.2.1:9094", "what it shows is not known now"
    assert bootstrap(kubernetes) == {"lb": "192.0.2.10:9094"}
    assert "Service demo-lb-ext, demo-lb-ext-1 yet" in why_not_ready(kubernetes)


def test_with_a_certificate_of_the_user_no_address_waits() -> None:
    given = {"secretName": "kafka", "certificate": "tls.crt", "key": "tls.key"}
    kubernetes = balanced(tls=True, configuration={"brokerCertChainAndKey": given})
    kubernetes.settle(service_addresses=ADDRESSES)
    assert endpoints(kubernetes, 1)["lb"] == "192.0.2.1:9094"


@pytest.mark.parametrize("type_", ["loadbalancer", "nodeport"])
def test_another_host_of_the_spec_waits_for_the_certificate(type_: str) -> None:
    """Clients that are connected would refuse the broker until it shows the name."""
    ports = {"demo-broker-1-external": {"lb": 30_001}}

    def listener(template: str) -> dict[str, Any]:
        configuration = {"advertisedHostTemplate": template}
        return {**BALANCED, "type": type_, "tls": True, "configuration": configuration}

    kubernetes = running(1, listeners=[listener("old-{nodeId}.example.com")])
    kubernetes.settle(node_ports=ports)
    before = endpoints(kubernetes, 1)["lb"]
    assert before.startswith("old-1.example.com:")

    kubernetes.configure(listeners=[listener("new-{nodeId}.example.com")])
    kubernetes.settle(node_ports=ports)
    assert endpoints(kubernetes, 1)["lb"] == before
    shown = {BrokerId(1): frozenset({"new-1.example.com"})}
    kubernetes.settle(node_ports=ports, certified_hosts=shown)
    assert endpoints(kubernetes, 1)["lb"] == before.replace("old", "new")


def test_hosts_and_ports_of_the_spec_win() -> None:
    configuration = {
        "advertisedHostTemplate": "b{nodeId}.example.com",
        "brokers": [{"broker": 2, "advertisedHost": "two.example.com", "advertisedPort": 9002}],
    }
    kubernetes = balanced(configuration=configuration, advertisedPort=9000)
    assert endpoints(kubernetes, 1)["lb"] == "b1.example.com:9000"
    assert endpoints(kubernetes, 2)["lb"] == "two.example.com:9002"
    kubernetes.settle(service_addresses=ADDRESSES)
    assert endpoints(kubernetes, 1)["lb"] == "b1.example.com:9000"
    assert bootstrap(kubernetes) == {"lb": "192.0.2.10:9000"}
    assert why_not_ready(kubernetes) == ""


def test_without_a_bootstrap_service_brokers_take_its_place() -> None:
    kubernetes = balanced(5, configuration={"createBootstrapService": False})
    of_brokers = {f"demo-lb-ext-{number}": f"fd00::{number}" for number in range(1, 6)}
    kubernetes.settle(service_addresses=of_brokers)
    kubernetes.settle(service_addresses=of_brokers)
    assert bootstrap(kubernetes) == {"lb": "[fd00::1]:9094,[fd00::2]:9094,[fd00::3]:9094"}
    assert why_not_ready(kubernetes) == ""


def test_as_many_brokers_take_its_place_as_there_is_room_for() -> None:
    configuration = {
        "createBootstrapService": False,
        "advertisedHostTemplate": f"{'a' * 60}.{'b' * 60}.{{nodeId}}",
    }
    kubernetes = balanced(3, configuration=configuration)
    kubernetes.settle()
    (servers,) = bootstrap(kubernetes).values()
    assert [one[-6:] for one in servers.split(",")] == ["1:9094", "2:9094"]


def test_a_broker_without_an_object_has_no_address() -> None:
    kubernetes = balanced(1)
    world = kubernetes.world(service_addresses={"demo-lb-ext-9": "192.0.2.9"})
    lacking, outdated = waiting_listeners(world, kubernetes.cluster, [BrokerId(9)])
    assert "demo-lb-ext:" in lacking
    assert "demo-lb-ext-9 yet" in outdated
    advertised = {"demo-lb-ext": "192.0.2.10", "demo-lb-ext-9": "192.0.2.9"}
    world = kubernetes.world(service_addresses=advertised)
    (waiting,) = waiting_listeners(world, kubernetes.cluster, [BrokerId(9)])
    assert "Service demo-lb-ext, demo-lb-ext-9 yet" in waiting


def test_brokers_behind_a_proxy_share_its_port() -> None:
    kubernetes = running(2, listeners=[ROUTED])
    assert endpoints(kubernetes, 1)["sni"] == "broker-1.example.com:443"
    assert endpoints(kubernetes, 2)["sni"] == "broker-2.example.com:443"
    assert bootstrap(kubernetes) == {"sni": "kafka.example.com:443"}
    assert why_not_ready(kubernetes) == ""

    kubernetes.configure(listeners=[{**ROUTED, "advertisedPort": 9443}])
    kubernetes.settle()
    assert endpoints(kubernetes, 1)["sni"] == "broker-1.example.com:9443"
    assert bootstrap(kubernetes) == {"sni": "kafka.example.com:9443"}

    given: Any = ROUTED["configuration"]
    renamed = {**given, "hostTemplate": "b{nodeId}.example.com"}
    kubernetes.configure(listeners=[{**ROUTED, "configuration": renamed}])
    kubernetes.settle()
    assert endpoints(kubernetes, 1)["sni"] == "b1.example.com:443", "the old name leads nowhere"


@pytest.mark.parametrize("count", [5, 6, 7])
def test_a_message_names_a_few_services(count: int) -> None:
    message = why_not_ready(balanced(count - 1))
    assert ("and 1 more" in message) is (count == 6)
    assert ("and 2 more" in message) is (count == 7)


def test_node_ports_with_hosts_of_the_spec_have_one_of_them_as_bootstrap_address() -> None:
    """It is in every certificate, unlike the address of a node."""
    template = {"advertisedHostTemplate": "b{nodeId}.example.com"}
    listener = {"name": "np", "type": "nodeport", "port": 9094, "configuration": template}
    kubernetes = running(2, listeners=[listener])
    ports = {
        "demo-broker-2-external": {"np": 30_002},
        "demo-kafka-external-bootstrap": {"np": 30_000},
    }
    kubernetes.settle(node_ports=ports)
    assert endpoints(kubernetes, 2)["np"] == "b2.example.com:30002"
    assert bootstrap(kubernetes) == {"np": "b1.example.com:30000"}


def test_without_the_gateway_api_ready_says_that_it_is_not_supported() -> None:
    kubernetes = running(1, listeners=[{**BALANCED, "type": "internal"}])
    kubernetes.settle(apply_problems=(NO_TLS_ROUTES,))
    assert why_not_ready(kubernetes) == f"NotSupported: {NO_TLS_ROUTES}. The operator keeps trying"
    kubernetes.settle(apply_problems=(NO_TLS_ROUTES, "Service demo is refused"))
    assert why_not_ready(kubernetes).startswith(f"FailedApply: {NO_TLS_ROUTES}; Service")
