"""The names and addresses that a broker's certificate is valid for."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from chiplog_core.certificates.authority import BACKDATED, Issued
from chiplog_core.certificates.servers import (
    IN_PODS_WITHIN,
    certified_hosts,
    hosts_of,
    is_address,
)
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec, Endpoint
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata

TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
EXTERNAL = {"name": "external", "type": "nodeport", "port": 9094, "tls": True}
OWN = {"brokerCertChainAndKey": {"secretName": "kafka", "certificate": "c", "key": "k"}}


def cluster(*listeners: dict[str, object]) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "shop"},
            "spec": {"replicas": 2, "storage": {"size": "1Gi"}, "listeners": list(listeners)},
        }
    )


def broker(number: int, host: str, *, listener: str = "external", retired: bool = False) -> Broker:
    return Broker(
        metadata=Metadata(name=f"demo-{number}", namespace="shop"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="abc",
            broker_id=BrokerId(number),
            intent=BrokerIntent.SERVE,
            retired=retired,
            endpoints=(Endpoint(listener=listener, host=host, port=32_090 + number),),
        ),
    )


def hosts(
    *listeners: dict[str, object],
    brokers: tuple[Broker, ...] = (),
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> frozenset[str]:
    by_id = {one.spec.broker_id: one for one in brokers}
    return hosts_of(cluster(*listeners), BrokerId(1), by_id, addresses)


def test_inside_a_broker_has_every_form_of_its_names() -> None:
    suffixes = ("", ".shop", ".shop.svc", ".shop.svc.cluster.local")
    stems = (
        "demo-kafka-bootstrap",
        "demo-kafka-brokers",
        "demo-broker-1-0.demo-kafka-brokers",
    )
    assert hosts(TLS) == {f"{stem}{suffix}" for stem in stems for suffix in suffixes}


def test_outside_it_has_the_addresses_of_all_brokers() -> None:
    found = hosts(TLS, EXTERNAL, brokers=(broker(1, "10.0.0.1"), broker(2, "10.0.0.2")))
    assert found - hosts(TLS) == {"10.0.0.1", "10.0.0.2"}


def test_in_a_large_cluster_it_has_its_own_and_those_of_the_first_brokers() -> None:
    brokers = tuple(broker(number, f"10.0.0.{number}") for number in range(2, 200))
    found = hosts(EXTERNAL, brokers=(*brokers, broker(1, "10.0.0.1")))
    assert found - hosts(TLS) == {f"10.0.0.{number}" for number in range(1, 21)}
    by_id = {one.spec.broker_id: one for one in brokers}
    last = hosts_of(cluster(EXTERNAL), BrokerId(199), by_id)
    assert {"10.0.0.2", "10.0.0.199"} <= last
    assert "10.0.0.198" not in last


def test_an_advertised_host_is_one_of_them_before_a_broker_has_it() -> None:
    assert "kafka.example.com" in hosts({**EXTERNAL, "advertisedHost": "kafka.example.com"})
    assert "fd00::1" in hosts({**EXTERNAL, "advertisedHost": "fd00::1"})


def test_other_listeners_and_brokers_that_are_gone_add_nothing() -> None:
    others = (
        broker(1, "10.0.0.1", listener="plain"),
        broker(2, "10.0.0.2", retired=True),
    )
    plain = {**EXTERNAL, "name": "plain", "tls": False, "advertisedHost": "plain.example.com"}
    own = {**EXTERNAL, "configuration": OWN, "advertisedHost": "own.example.com"}
    assert hosts(TLS, plain, own, brokers=others) == hosts(TLS)
    assert hosts(EXTERNAL, brokers=others) == hosts(EXTERNAL)


def test_what_no_certificate_can_name_is_left_out() -> None:
    assert hosts({**EXTERNAL, "advertisedHost": "not:an-address"}) == hosts(EXTERNAL)


BALANCED = {**EXTERNAL, "type": "loadbalancer"}
ADDRESSES = {
    "demo-external-ext": "192.0.2.10",
    "demo-external-ext-1": "one.elb.example.com",
    "demo-external-ext-2": "192.0.2.12",
    "other-external-ext-1": "192.0.2.66",
}


def test_the_addresses_of_load_balancers_are_in_it_before_they_are_advertised() -> None:
    found = hosts(BALANCED, addresses=ADDRESSES)
    assert found - hosts(TLS) == {"192.0.2.10", "one.elb.example.com"}
    advertised = (broker(1, "192.0.2.1"), broker(2, "192.0.2.2"))
    found = hosts(BALANCED, brokers=advertised, addresses=ADDRESSES)
    assert found - hosts(TLS) == {"192.0.2.1", "192.0.2.10", "one.elb.example.com"}
    own = {**BALANCED, "configuration": OWN}
    assert hosts(TLS, own, addresses=ADDRESSES) == hosts(TLS)


def test_the_names_of_a_proxy_and_those_that_the_user_adds_are_in_it() -> None:
    configuration = {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {
            "host": "kafka.example.com",
            "alternativeNames": ["k.example.com", "fd00::1"],
        },
        "brokers": [{"broker": 2, "host": "two.example.com"}],
    }
    found = hosts({**EXTERNAL, "type": "ingress", "configuration": configuration})
    assert found - hosts(TLS) == {
        "kafka.example.com",
        "broker-1.example.com",
        "k.example.com",
        "fd00::1",
    }
    by_template = {"advertisedHostTemplate": "b{nodeId}.example.com"}
    assert "b1.example.com" in hosts({**BALANCED, "configuration": by_template})


def test_a_broker_certainly_shows_a_certificate_after_a_while_or_a_start() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    issued = Issued(
        issuer="a", not_before=now - BACKDATED, not_after=now, hosts=frozenset({"a.example.com"})
    )
    second = timedelta(seconds=1)

    assert not certified_hosts(issued, now - second, now)
    assert not certified_hosts(issued, now, now + IN_PODS_WITHIN - second)
    assert certified_hosts(issued, now + second, now + second) == issued.hosts
    assert certified_hosts(issued, now - second, now + IN_PODS_WITHIN) == issued.hosts
    assert certified_hosts(issued, None, now) == issued.hosts
    assert certified_hosts(replace(issued, is_shown=True), now - second, now) == issued.hosts
    assert not certified_hosts(replace(issued, is_shown=False), now - second, now)


def test_an_address_is_no_name() -> None:
    assert [is_address(one) for one in ("10.0.0.1", "fd00::1", "a.example.com")] == [
        True,
        True,
        False,
    ]
