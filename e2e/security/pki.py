"""The CAs of a cluster under test, and clients with certificates of them."""

import time
from base64 import b64decode
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from e2e.clients.by_librdkafka import QUIET
from e2e.clients.tls import s_client
from e2e.kafka.certificates import Authority, Issued
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest

SERVERS, CLUSTER_CA, CLIENTS_CA = "demo-broker-certs", "demo-cluster-ca", "demo-clients-ca"


class Pki:
    """The cluster's CAs, and clients that trust it. `admin` is a super user without a User: its
    certificates are issued here, with the key of the clients CA."""

    def __init__(self, cluster: BrokerClusterUnderTest, directory: Path, topic: str) -> None:
        """`topic` exists: a client that is served sees it."""
        self.cluster = cluster
        self.directory = directory
        self.topic = topic

    def entries(self, secret: str) -> dict[str, bytes]:
        data = self.cluster.kubectl.get("secret", secret)["data"]
        return {key: b64decode(value) for key, value in data.items()}

    def annotate(self, secret: str, annotation: str) -> None:
        self.cluster.kubectl("annotate", "secret", secret, f"{annotation}=true", "--overwrite")

    def published(self, ca: str) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates(self.entries(f"{ca}-cert")["ca.crt"])

    def clients_ca(self) -> Authority:
        """With its present key, which another Secret has than its certificate."""
        key = serialization.load_pem_private_key(self.entries(CLIENTS_CA)["ca.key"], None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        newest = self.published(CLIENTS_CA)[0]
        assert newest.public_key() == key.public_key()
        return Authority(key, newest)

    def admin(self, name: str) -> "Identity":
        """A client with a certificate of the present clients CA."""
        return Identity(self, name, self.clients_ca().client("admin"))

    def addresses(self) -> list[str]:
        """The address of each broker at the listener with client certificates."""
        brokers = self.cluster.own("brk")
        endpoints = [one for broker in brokers for one in broker["spec"]["endpoints"]]
        return [f"{one['host']}:{one['port']}" for one in endpoints if one["listener"] == "mtls"]

    def bootstrap(self) -> str:
        return ",".join(self.addresses())

    def changing(self) -> str:
        """What the BrokerCluster says about a replacement."""
        conditions = self.cluster.kubectl.get("cbc", "demo")["status"]["conditions"]
        found = [one["message"] for one in conditions if one["type"] == "CertificatesChanging"]
        return found[0] if found else ""


class Identity:
    """The files of a client."""

    def __init__(self, pki: Pki, name: str, issued: Issued) -> None:
        self.pki = pki
        self.files = issued.write(pki.directory / name)
        self.ca = self.files / "cluster-ca.crt"
        self.ca.write_bytes(pki.entries(f"{CLUSTER_CA}-cert")["ca.crt"])

    @property
    def openssl(self) -> tuple[str | Path, ...]:
        """With TLS 1.2, whose sessions a server keeps."""
        return ("-cert", self.files / "tls.crt", "-key", self.files / "tls.key", "-tls1_2")

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.pki.bootstrap(),
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.files / "tls.crt"),
            "ssl.key.location": str(self.files / "tls.key"),
            **QUIET,
        }

    @property
    def kafka_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.pki.bootstrap(),
            "security_protocol": "SSL",
            "ssl_cafile": str(self.ca),
            "ssl_certfile": str(self.files / "tls.crt"),
            "ssl_keyfile": str(self.files / "tls.key"),
        }

    def is_served(self) -> bool:
        """Whether every broker serves a new client with these files."""
        return all(map(self.is_served_by, self.pki.addresses()))

    def is_served_by(self, address: str) -> bool:
        admin = AdminClient({**self.librdkafka, "bootstrap.servers": address})
        try:
            return self.pki.topic in admin.list_topics(timeout=3).topics
        except KafkaException:
            return False

    def save_session(self, address: str) -> Path:
        """Save a session at this broker, which it resumes."""
        saved = self.files / "session"
        assert "Verify return code" in s_client(address, *self.openssl, "-sess_out", saved)
        assert "Reused" in s_client(address, *self.openssl, "-sess_in", saved)
        return saved

    def is_refused(self, address: str, saved: Path) -> bool:
        """Whether the broker refuses this client, also with a saved session."""
        printed = (
            s_client(address, *self.openssl),
            s_client(address, *self.openssl, "-sess_in", saved),
        )
        return all("alert" in one and "Reused" not in one for one in printed)


def refresh(cluster: BrokerClusterUnderTest) -> None:
    """Have the kubelets update mounted Secrets now: they do when a pod changes, and otherwise every
    minute or so, for which only the long form waits."""
    if not is_full():
        for pod in cluster.broker_pods():
            cluster.kubectl("annotate", "pod", pod, f"e2e/refreshed={time.time()}", "--overwrite")
