"""A cluster on Kubernetes whose clients need credentials, and what such a client is given."""

from base64 import b64decode
from pathlib import Path
from typing import Any

from e2e.clients.by_librdkafka import QUIET
from e2e.clients.over_tls.files import TlsFiles
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.security.outside import BALANCED, ROUTED

HOST = "127.0.0.1"
PODS, AUDIENCE, PODS_REAUTH_S = "pods", "demo.e2e-security", 5
"""The listener for tokens of ServiceAccounts, what they are for, and how often clients of it log in
again."""


def inside(name: str, port: int, **authentication: str) -> Manifest:
    """A listener for pods."""
    return {
        "name": name,
        "type": "internal",
        "port": port,
        "tls": True,
        "authentication": authentication,
    }


def outside(name: str, port: int, authentication: str) -> Manifest:
    """A listener for clients on this machine."""
    return {
        **inside(name, port, type=authentication),
        "type": "nodeport",
        "advertisedHost": HOST,
    }


CLUSTER = {
    "apiVersion": "chiplog.dev/v1alpha1",
    "kind": "BrokerCluster",
    "metadata": {"name": "demo"},
    "spec": {
        "replicas": 3,
        "storage": {"size": "1Gi"},
        "listeners": [
            # As Strimzi's examples have it.
            inside("tls", 9093, type="tls"),
            outside("mtls", 9094, "tls"),
            outside("scram", 9095, "scram-sha-512"),
            inside(PODS, 9100, type="kubernetes-token", audience=AUDIENCE),
            BALANCED,
            *ROUTED,
        ],
        "config": {f"listener.name.{PODS}.connections.max.reauth.ms": PODS_REAUTH_S * 1000},
        "authorization": {"type": "simple", "superUsers": ["CN=admin"]},
    },
}


def user(name: str, authentication: str, *rules: tuple[str, str, list[str]]) -> Manifest:
    """A User that may do so much: (resource type, its name, operations)."""
    acls = [
        {"resource": {"type": type_, "name": resource}, "operations": operations}
        for type_, resource, operations in rules
    ]
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "User",
        "metadata": {"name": name},
        "spec": {
            "clusterRef": {"name": "demo"},
            "authentication": {"type": authentication},
            "authorization": {"type": "simple", "acls": acls},
        },
    }


class Credentials:
    """What a client mounts: the cluster's CA, and the Secret of its User."""

    def __init__(self, cluster: BrokerClusterUnderTest, name: str, directory: Path) -> None:
        self.cluster, self.name, self.directory = cluster, name, directory
        directory.mkdir(exist_ok=True)
        self.ca = self._write("cluster-ca.crt", self._entries("demo-cluster-ca-cert")["ca.crt"])
        self.entries = self._entries(name)

    def _entries(self, secret: str) -> dict[str, bytes]:
        data = self.cluster.kubectl.get("secret", secret)["data"]
        return {key: b64decode(value) for key, value in data.items()}

    def _write(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)

    def bootstrap(self, name: str) -> str:
        listeners = self.cluster.kubectl.get("cbc", "demo")["status"]["listeners"]
        (found,) = [one["bootstrapServers"] for one in listeners if one["name"] == name]
        return str(found)

    def files(self) -> TlsFiles:
        """The files of a client with a certificate."""
        return TlsFiles(
            ca=Path(self.ca),
            certificate=Path(self._write("user.crt", self.entries["user.crt"])),
            key=Path(self._write("user.key", self.entries["user.key"])),
        )

    def librdkafka(self) -> dict[str, Any]:
        """Settings of a client with a certificate if the Secret has one, else with a password."""
        shared = {"allow.auto.create.topics": False, **QUIET}
        if "user.crt" in self.entries:
            bootstrap = {"bootstrap.servers": self.bootstrap("mtls")}
            return {**shared, **bootstrap, **self.files().librdkafka()}
        return {
            **shared,
            "bootstrap.servers": self.bootstrap("scram"),
            "ssl.ca.location": self.ca,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": self.name,
            "sasl.password": self.entries["password"].decode(),
        }
