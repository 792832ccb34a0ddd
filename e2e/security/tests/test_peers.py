"""Brokers among themselves, and the operator's questions: whom their ports let in."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from chiplog_core.ids import BrokerId
from chiplog_core.naming import labels, ports
from chiplog_core.naming.peers import broker_host
from e2e import measured
from e2e.clients.tls import Load
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, topic_manifest
from e2e.main.replicas import wait_in_sync
from e2e.security.pki import CLUSTER_CA, SERVERS, Pki, refresh
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(900)]

TOPIC, USER = "between-brokers", "insider"
WAIT_S = 300
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
UNSIGNED = b"POST /groups/facts HTTP/1.1\r\nHost: broker\r\nContent-Length: 0\r\n\r\n"
ASKED = {ports.INTERNAL: API_VERSIONS, ports.OPERATOR: UNSIGNED}
"""What each port answers to whom it lets in, without a login and without a signature."""


ALERT = b"\x15"
"""The type of the record with which TLS refuses a client (RFC 8446, 5.1)."""


class Broker:
    """One broker, as its pod and its object show it."""

    def __init__(self, cluster: BrokerClusterUnderTest, number: int) -> None:
        self.cluster, self.number = cluster, number
        status = cluster.kubectl.get("pod", f"demo-broker-{number}-0")["status"]
        self.address = str(status["podIP"])
        self.host = broker_host("demo", cluster.kubectl.namespace, BrokerId(number))

    def answers(self, port: int, context: ssl.SSLContext | None) -> bytes:
        """What the port answers first to a client with TLS, or in plain text; empty if the
        connection ends."""
        with suppress(OSError), socket.create_connection((self.address, port), 10) as plain:
            if context is None:
                plain.sendall(ASKED[port])
                found = plain.recv(12)
                return b"" if found.startswith(ALERT) else found
            with context.wrap_socket(plain, server_hostname=self.host) as secured:
                secured.sendall(ASKED[port])
                return secured.recv(12)
        return b""

    def own_listener(self) -> Manifest:
        """What it reports of its connections with other brokers; empty if it uses plain text."""
        status = self.cluster.kubectl.get("brk", f"demo-{self.number}")["status"]
        reported = status.get("listenerCertificates", [])
        return next((one for one in reported if one["listener"] == "internal"), {})


class Insiders:
    """Contexts of clients that trust the cluster CA."""

    def __init__(self, pki: Pki) -> None:
        self.pki = pki
        self.ca = pki.entries(f"{CLUSTER_CA}-cert")["ca.crt"].decode()

    def context(self, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca)
        if certificate:
            file = self.pki.directory / "client.pem"
            file.write_bytes(certificate + key)
            context.load_cert_chain(file)
        return context

    def of(self, owner: str) -> ssl.SSLContext:
        """With the certificate of a broker or of the operator."""
        found = self.pki.entries(SERVERS)
        return self.context(found[f"{owner}.crt"], found[f"{owner}.key"])


@pytest.fixture
def load(cluster: BrokerClusterUnderTest, tmp_path: Path) -> Iterator[tuple[Credentials, Load]]:
    """A User with a certificate that produces and consumes, and a ConsumerGroup for its group."""
    rules = ("topic", TOPIC, ["Read", "Write", "Describe"]), ("group", "load", ["Read"])
    group = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "load"},
        "spec": {"clusterRef": {"name": "demo"}},
    }
    made = [topic_manifest(TOPIC, 3, replicas=3), user(USER, "tls", *rules), group]
    cluster.kubectl.apply(yaml.safe_dump_all(made))
    cluster.wait_ready("ct", TOPIC)
    cluster.wait_ready("users.chiplog.dev", USER)
    account = Credentials(cluster, USER, tmp_path / USER)
    try:
        with Load(account.librdkafka(), TOPIC, pause_s=0.02) as running:
            yield account, running
    finally:
        for kind, name in (("ct", TOPIC), ("users.chiplog.dev", USER), ("ccg", "load")):
            cluster.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")


def test_only_brokers_and_the_operator_are_let_in_while_certificates_are_renewed(
    cluster: BrokerClusterUnderTest, tmp_path: Path, load: tuple[Credentials, Load]
) -> None:
    account, running = load
    pki, before = Pki(cluster, tmp_path, TOPIC), cluster.broker_pods()
    brokers = [Broker(cluster, number) for number in (1, 2, 3)]
    insiders = Insiders(pki)
    first = {one.number: one.own_listener()["fingerprint"] for one in brokers}
    pki.annotate(SERVERS, labels.FORCE_RENEW)

    # -- who is let in, before
    strangers: dict[str, ssl.SSLContext | None] = {
        "plain text": None,
        "no certificate": insiders.context(),
        "a user": insiders.context(account.entries["user.crt"], account.entries["user.key"]),
    }
    for broker in brokers:
        assert broker.answers(ports.OPERATOR, insiders.of("operator")).startswith(b"HTTP/1.1 403")
        assert broker.answers(ports.INTERNAL, insiders.of("1"))
        assert broker.answers(ports.INTERNAL, insiders.of("operator")) == b""
        assert broker.answers(ports.OPERATOR, insiders.of("1")) == b""
        for who, context in strangers.items():
            for port in ASKED:
                assert broker.answers(port, context) == b"", f"{who} at {port}"

    # -- what the operator asks over its port
    def is_seen() -> bool:
        status = cluster.kubectl.get("ccg", "load").get("status", {})
        return int(status.get("memberCount", 0)) > 0

    eventually("the operator sees the group", is_seen, WAIT_S)
    assert not_found(brokers[0].address)

    # -- after the renewal
    def is_renewed(broker: Broker) -> bool:
        (shown,) = x509.load_pem_x509_certificates(pki.entries(SERVERS)[f"{broker.number}.crt"])
        wanted = shown.fingerprint(hashes.SHA256()).hex()
        reported = broker.own_listener()["fingerprint"]
        return bool(reported == wanted != first[broker.number])

    def are_written() -> bool:
        return bool(pki.entries(SERVERS)["1.crt"]) and labels.FORCE_RENEW not in json.dumps(
            asked(cluster)
        )

    eventually("certificates are renewed", are_written, WAIT_S)
    refresh(cluster)
    for broker in brokers:
        took_s = eventually("it uses the new one", partial(is_renewed, broker), WAIT_S)
        measured.note(f"broker {broker.number} uses its new certificate after {took_s:.0f} s")
    for broker in brokers:
        assert all(broker.answers(ports.INTERNAL, insiders.of(str(n))) for n in (1, 2, 3))
        assert broker.answers(ports.OPERATOR, insiders.of("operator"))
    count = len(running.read)
    eventually("records go on", lambda: len(running.read) > count + 20, WAIT_S)
    wait_in_sync(cluster)
    assert cluster.broker_pods() == before, "no process has ended"
    assert running.errors == []


def asked(cluster: BrokerClusterUnderTest) -> Any:
    """What annotations still ask for."""
    annotations = cluster.kubectl.get("secret", SERVERS)["metadata"].get("annotations", {})
    return {name: value for name, value in annotations.items() if value == "true"}


def not_found(address: str) -> bool:
    """Whether the health port answers no question of the operator."""
    with socket.create_connection((address, ports.HEALTH), 10) as plain:
        plain.sendall(UNSIGNED)
        return plain.recv(12) == b"HTTP/1.1 404"
