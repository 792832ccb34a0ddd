"""Clients outside of Kubernetes reach brokers through load balancers and a proxy."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaProducer
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.security import haproxy, outside
from e2e.security.outside import BALANCED, BROKERS, PROXY, LoadBalancers
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

TOPIC, PARTITIONS = "outside", 3
RULES = (("topic", TOPIC, ["Read", "Write", "Describe"]), ("group", TOPIC, ["Read"]))
WAIT_S = 30


@pytest.fixture(scope="module")
def topic(cluster: BrokerClusterUnderTest) -> Iterator[None]:
    """A topic with a leader on each broker, and the users who may use it."""
    users = [user("balanced", "tls", *RULES), user("routed", "scram-sha-512", *RULES)]
    manifests = [topic_manifest(TOPIC, PARTITIONS, replicas=3), *users]
    cluster.kubectl.apply(yaml.safe_dump_all(manifests))
    cluster.wait_ready("ct", TOPIC)
    for one in ("balanced", "routed"):
        cluster.wait_ready("users.chiplog.dev", one)
    yield
    for kind, name in (("ct", TOPIC), ("users.chiplog.dev", "balanced")):
        cluster.kubectl("delete", kind, name, "--wait=false")
    cluster.kubectl("delete", "users.chiplog.dev", "routed", "--wait=false")


@pytest.mark.usefixtures("topic")
def test_load_balancers_lead_to_brokers_also_when_their_addresses_change(
    cluster: BrokerClusterUnderTest, tmp_path: Path
) -> None:
    before = cluster.broker_pods()
    account = Credentials(cluster, "balanced", tmp_path / "balanced")
    assert account.bootstrap("lb") == f"{outside.BOOTSTRAP}:{BALANCED['port']}"
    settings = {**account.librdkafka(), "bootstrap.servers": account.bootstrap("lb")}
    addresses = {number: outside.address_of(number) for number in BROKERS}
    assert advertised(settings) == addresses
    produce(settings, b"first")
    wait_consumed(settings, b"first")

    balancers = LoadBalancers(cluster.kubectl)
    balancers.set_address("demo-lb-ext", outside.OTHER_BOOTSTRAP)
    balancers.set_address("demo-lb-ext-1", outside.OTHER_OF_ONE)
    try:
        bootstrap = f"{outside.OTHER_BOOTSTRAP}:{BALANCED['port']}"
        eventually("it is published", lambda: account.bootstrap("lb") == bootstrap, WAIT_S)
        moved = {**settings, "bootstrap.servers": bootstrap}
        others = {**addresses, 1: outside.OTHER_OF_ONE}
        eventually("it is advertised", lambda: advertised(moved) == others, WAIT_S)
        produce(moved, b"second")
        wait_consumed(moved, b"second")
    finally:
        balancers.set_address("demo-lb-ext", outside.BOOTSTRAP)
        balancers.set_address("demo-lb-ext-1", addresses[1])
    eventually("the first one again", lambda: advertised(settings) == addresses, WAIT_S)
    assert cluster.broker_pods() == before, "no broker restarts for an address"


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("listener", ["sni", "gateway"])
def test_a_proxy_finds_brokers_by_their_names(
    cluster: BrokerClusterUnderTest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
) -> None:
    """All brokers are behind one port of haproxy, which does not end TLS."""
    account = Credentials(cluster, "routed", tmp_path / "routed")
    routes = haproxy.routes_of(cluster.kubectl)
    ends = ("bootstrap", *(f"broker-{number}" for number in BROKERS))
    hosts = {f"{one}.{listener}.test" for one in ends}
    assert hosts <= {host for host, _ in routes.values()}
    value = f"through {listener}".encode()
    resolved: list[str] = []
    lookup = socket.getaddrinfo

    def to_the_proxy(host: str, *others: Any, **named: Any) -> Any:
        """As a DNS server outside answers."""
        resolved.append(host)
        return lookup(PROXY[0] if host in hosts else host, *others, **named)

    monkeypatch.setattr(socket, "getaddrinfo", to_the_proxy)
    settings = {
        "bootstrap_servers": account.bootstrap(listener),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": account.ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": account.name,
        "sasl_plain_password": account.entries["password"].decode(),
    }
    assert settings["bootstrap_servers"] == f"bootstrap.{listener}.test:{PROXY[1]}"
    with haproxy.proxy(routes, tmp_path):
        producer = KafkaProducer(**settings)
        try:
            for partition in range(PARTITIONS):
                producer.send(TOPIC, value, partition=partition).get(timeout=WAIT_S)
        finally:
            producer.close()
        consumer = KafkaConsumer(
            TOPIC,
            group_id=TOPIC,
            auto_offset_reset="earliest",
            consumer_timeout_ms=WAIT_S * 1000,
            **settings,
        )
        try:
            routed = (one.partition for one in consumer if one.value == value)
            found = {one for _, one in zip(range(PARTITIONS), routed, strict=False)}
        finally:
            consumer.close()
    assert found == set(range(PARTITIONS))
    assert hosts <= set(resolved), "it went to each broker by its name"


def advertised(settings: dict[str, Any]) -> dict[int, str]:
    """Broker id -> the host in the metadata that a client gets."""
    consumer = Consumer({"group.id": TOPIC, **settings})
    try:
        brokers = consumer.list_topics(timeout=10).brokers.values()
        assert {one.port for one in brokers} == {BALANCED["port"]}
        return {one.id: one.host for one in brokers}
    except KafkaException as error:
        raise AssertionError(str(error)) from error
    finally:
        consumer.close()


def produce(settings: dict[str, Any], value: bytes) -> None:
    """A record to each partition, so through the load balancer of each leader."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"message.timeout.ms": 20_000, "acks": "all", **settings})
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC, value, partition=partition, on_delivery=lambda error, _: outcomes.append(error)
        )
    producer.flush(WAIT_S)
    assert outcomes == [None] * PARTITIONS


def wait_consumed(settings: dict[str, Any], value: bytes) -> None:
    """Read the topic from its beginning until the value was in each partition."""
    consumer = Consumer(
        {
            "group.id": TOPIC,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([TOPIC])
    partitions: set[int | None] = set()

    def is_complete() -> bool:
        one = consumer.poll(0.5)
        if one is not None and not one.error() and one.value() == value:
            partitions.add(one.partition())
        return len(partitions) == PARTITIONS

    try:
        eventually(f"{value!r} is in each partition", is_complete, WAIT_S, every_s=0)
    finally:
        consumer.close()
