"""How to reach the API server, and as whom: from inside a pod, or by a kubeconfig file.

Reading files is all that happens here. A pod's token is replaced by the kubelet long before it
expires, so it is read again whenever its file changed.
"""

import base64
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoConnection(ValueError):  # noqa: N818 - named for what it says
    """There is no usable description of an API server; says what is missing."""


class Credentials(Protocol):
    """What a request says of who makes it."""

    def headers(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class NoToken:
    """Known by its client certificate, or by nothing."""

    def headers(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class Token:
    """A token that does not change."""

    text: str = field(repr=False)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"}


class TokenFile:
    """A token that somebody else replaces from time to time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at: tuple[int, int] | None = None
        self._token = ""

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token()}"}

    def token(self) -> str:
        """The token of now. One that cannot be read is tried as it was."""
        try:
            found = self._path.stat()
            changed = (found.st_mtime_ns, found.st_ino)
            if changed != self._read_at:
                self._token = self._path.read_text(encoding="ascii").strip()
                self._read_at = changed
        except OSError:
            if not self._token:
                raise
        return self._token


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An API server, and who we are to it."""

    server: str
    """Like `https://10.0.0.1:443`, without a slash at its end."""
    ca: bytes | None = field(default=None, repr=False)
    """PEM; None for what the system trusts."""
    insecure: bool = False
    """Believe any server certificate: only because a kubeconfig says so."""
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    credentials: Credentials = field(default_factory=NoToken)
    namespace: str = ""
    """Where objects are that name no namespace."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """For TLS to the server; None where it is spoken to in plain text."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            # ssl reads certificates from files only.
            with TemporaryDirectory() as folder:
                path = Path(folder, "client.pem")
                path.touch(mode=0o600)
                path.write_bytes(self.certificate + b"\n" + self.key)
                context.load_cert_chain(path)
        return context


def find(kubeconfig: Path | None, environment: Mapping[str, str] = os.environ) -> Connection:
    """By a file where one is named, else from inside the pod. Raises `NoConnection`."""
    return from_kubeconfig(kubeconfig) if kubeconfig else in_cluster(environment)


def in_cluster(
    environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Connection:
    """As a pod knows it: address by environment, token, CA and namespace as files."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port:
        raise NoConnection("KUBERNETES_SERVICE_HOST and _PORT are not set: name a kubeconfig file")
    shown = f"[{host}]" if ":" in host else host
    try:
        namespace = folder / "namespace"
        token = TokenFile(folder / "token")
        token.token()
        return Connection(
            server=f"https://{shown}:{port}",
            ca=(folder / "ca.crt").read_bytes(),
            credentials=token,
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
        )
    except OSError as error:
        raise NoConnection(f"{error.filename}: {error.strerror}") from error


def from_kubeconfig(path: Path, context: str = "") -> Connection:
    """As kubectl knows it; `context` is the file's current one where it is empty."""
    try:
        parsed = _parse(path.read_text())
    except OSError as error:
        raise NoConnection(f"{path}: {error.strerror}") from error
    if not isinstance(parsed, dict):
        raise NoConnection(f"{path} is no kubeconfig")
    folder = path.parent
    chosen = _named(parsed, "context", context or parsed.get("current-context") or "", path)
    cluster = _named(parsed, "cluster", chosen.get("cluster", ""), path)
    user = _named(parsed, "user", chosen.get("user", ""), path)
    if not cluster.get("server"):
        raise NoConnection(f"{path}: the cluster of the context has no server")
    return Connection(
        server=str(cluster["server"]).rstrip("/"),
        ca=_bytes(cluster, "certificate-authority", folder),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        certificate=_bytes(user, "client-certificate", folder),
        key=_bytes(user, "client-key", folder),
        credentials=_credentials(user, folder, path),
        namespace=chosen.get("namespace") or "default",
    )


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        import yaml  # noqa: PLC0415 - brokers' images have no YAML, and pods need none

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise NoConnection(f"the kubeconfig is no YAML: {error}") from error


def _named(parsed: Mapping[str, Any], what: str, name: str, path: Path) -> dict[str, Any]:
    for entry in parsed.get(f"{what}s") or []:
        if entry.get("name") == name:
            return dict(entry.get(what) or {})
    raise NoConnection(f"{path} has no {what} named {name!r}")


def _bytes(entry: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    data, file = entry.get(f"{name}-data"), entry.get(name)
    if data:
        return base64.b64decode(data)
    try:
        return (folder / file).read_bytes() if file else None
    except OSError as error:
        raise NoConnection(f"{error.filename}: {error.strerror}") from error


def _credentials(user: Mapping[str, Any], folder: Path, path: Path) -> Credentials:
    if user.get("tokenFile"):
        return TokenFile(folder / user["tokenFile"])
    if user.get("token"):
        return Token(user["token"])
    if user.get("exec") or user.get("auth-provider"):
        raise NoConnection(f"{path}: users that log in by a program are not supported")
    return NoToken()
