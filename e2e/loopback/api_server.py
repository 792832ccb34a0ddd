"""etcd and kube-apiserver, built for the local cluster, as processes on free ports.

There is no controller, no scheduler and no node: nothing acts on the objects except the programs
that tests start. The administrator authenticates with a token; every other client gets a token of
its ServiceAccount, as a pod does.
"""

import json
import secrets
import ssl
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization

from e2e.cluster import build, pki
from e2e.kafka.members import wait_for
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.loopback.child import Child

READY_LIMIT_S = 120
ASK_LIMIT_S = 60
SERVICES = "198.19.0.0/16"  # Services get addresses, but without a kube-proxy they do not work
MERGE_PATCH = "application/merge-patch+json"

Manifest = dict[str, Any]


class ApiServer:
    """Runs etcd and the API server while the `with` block runs; at its end they are killed."""

    def __init__(self, directory: Path, node_ports: range) -> None:
        """`node_ports` is the range from which NodePort Services get their ports."""
        self.directory, self.node_ports = directory, node_ports
        self.client_port, self.peer_port, self.port = free_ports(3)
        self.token = secrets.token_hex(16)
        self.certificates = directory / "certificates"
        self.running = ExitStack()

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate that clients trust: the server's own, self-signed at its first start."""
        return self.certificates / "apiserver.crt"

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        self._write_secrets()
        etcd = Child(self._etcd(), self.directory / "etcd.log")
        server = Child(self._server(), self.directory / "kube-apiserver.log")
        try:
            for child in (etcd, server):
                self.running.callback(child.kill)
                child.start()
            wait_for("the API server is ready", self._is_ready, READY_LIMIT_S)
        except TimeoutError as late:
            self.running.close()
            raise TimeoutError(f"{late}\n{etcd.tail()}\n{server.tail()}") from late
        except BaseException:
            self.running.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.running.close()

    def kubeconfig(self, name: str, token: str, namespace: str = "default") -> Path:
        """Write a kubeconfig for a program that authenticates with `token`."""
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
            ],
            "current-context": name,
        }
        path = self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path

    def account(self, name: str, token: str, namespace: str) -> Path:
        """A directory like a pod's ServiceAccount volume, with this token, for a program."""
        directory = self.directory / name
        directory.mkdir(mode=0o700, exist_ok=True)
        ca = self.authority.read_text()
        for file, text in (("token", token), ("ca.crt", ca), ("namespace", namespace)):
            (directory / file).write_text(text)
        return directory

    def administrator(self) -> Path:
        """Write the administrator's kubeconfig, with all permissions."""
        return self.kubeconfig("administrator", self.token)

    def ask(self, method: str, path: str, body: Manifest | None = None) -> Manifest:
        """Make a request as the administrator and return the JSON answer.

        Raises `HTTPError` if it is refused, another `OSError` if the server does not answer.
        """
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": MERGE_PATCH if method == "PATCH" else "application/json",
            },
        )
        context = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(request, timeout=ASK_LIMIT_S, context=context) as answer:
            found: Manifest = json.loads(answer.read())
            return found

    def find(self, path: str) -> Manifest | None:
        """The object at this path; None if it does not exist."""
        try:
            return self.ask("GET", path)
        except urllib.error.HTTPError as refused:
            if refused.code != 404:
                raise
            return None

    def account_token(self, namespace: str, account: str) -> str:
        """A new token of this ServiceAccount, as a pod gets it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"spec": {"expirationSeconds": 86_400}}
        return str(self.ask("POST", path, body)["status"]["token"])

    def _is_ready(self) -> bool:
        return self.authority.exists() and bool(self.ask("GET", "/api/v1/namespaces/default"))

    def _write_secrets(self) -> None:
        """Write the administrator's token and the key that signs ServiceAccount tokens."""
        tokens, signer = self.directory / "tokens.csv", self.directory / "accounts.key"
        for path in (tokens, signer):
            path.touch(mode=0o600)
        tokens.write_text(f"{self.token},administrator,administrator,system:masters\n")
        signer.write_bytes(
            pki.new_key().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )

    def _etcd(self) -> list[str | Path]:
        """The command that starts etcd."""
        client, peer = (f"http://{LOOPBACK}:{port}" for port in (self.client_port, self.peer_port))
        return [
            build.program("etcd"),
            "--name=loopback",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=loopback={peer}",
            "--log-level=warn",
        ]

    def _server(self) -> list[str | Path]:
        """The command that starts kube-apiserver with RBAC and bearer tokens, without kubelets."""
        first, last = self.node_ports[0], self.node_ports[-1]
        return [
            build.program("kube-apiserver"),
            f"--etcd-servers=http://{LOOPBACK}:{self.client_port}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.port}",
            f"--cert-dir={self.certificates}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--service-node-port-range={first}-{last}",
            # It would write the endpoints of the Service `kubernetes`, and refuses loopback
            # addresses.
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            # The plugin would add a token volume to pods, which only a kubelet could provide.
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.directory / 'accounts.key'}",
            f"--service-account-signing-key-file={self.directory / 'accounts.key'}",
            "--profiling=false",
        ]
