"""The names and addresses that a broker's certificate is valid for."""

from chiplog_core.certificates.servers import hosts_of, is_address
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


def hosts(*listeners: dict[str, object], brokers: tuple[Broker, ...] = ()) -> frozenset[str]:
    by_id = {one.spec.broker_id: one for one in brokers}
    return hosts_of(cluster(*listeners), BrokerId(1), by_id)


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


def test_an_address_is_no_name() -> None:
    assert [is_address(one) for one in ("10.0.0.1", "fd00::1", "a.example.com")] == [
        True,
        True,
        False,
    ]
