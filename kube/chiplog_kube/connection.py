"""How to reach the API server, and as whom; and the way that a pod finds in its own files.

Kubeconfigs have a module of their own. A pod's token is replaced by the kubelet long before it
expires, so it is read again whenever its file changed.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chiplog_kube.pem_file import pem_file

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoConnection(ValueError):  # noqa: N818 - named for what it says
    """There is no usable description of an API server. `str()` says what is missing."""


class Credentials(Protocol):
    """Authenticates requests by headers."""

    def headers(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """What authenticates us now: headers, a client certificate, or neither."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    pem: bytes = field(default=b"", repr=False)
    """A client certificate with its key; empty where there is none."""


class Login(Protocol):
    """An identity that expires and is renewed, like that of a kubeconfig's login program."""

    @property
    def identity(self) -> Identity:
        """The identity for requests now."""

    async def fresh(self) -> int:
        """Renew the identity (headers or client certificate) if it expires soon. Returns the
        version of the present identity, to be passed to `refused` after a 401.

        Raises `NoConnection` if renewing fails and the old identity has expired.
        """

    async def refused(self, version: int) -> bool:
        """Handle that the API server refused (401) the identity of this version: renew it, unless
        that has happened already. Returns whether there is a newer identity.

        Raises `NoConnection` if renewing fails.
        """


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
        self._read_version: tuple[int, int] | None = None
        self._token = ""

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token()}"}

    def token(self) -> str:
        """The token in the file, which is read again when the file has changed. If it cannot be
        read, the last token. Raises `OSError` if there was none."""
        try:
            found = self._path.stat()
            version = (found.st_mtime_ns, found.st_ino)
            if version != self._read_version:
                self._token = self._path.read_text(encoding="ascii").strip()
                self._read_version = version
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
    """Accept any server certificate, as a kubeconfig may request (insecure-skip-tls-verify)."""
    server_name: str = ""
    """The name in the server's certificate, where it is not that of the address."""
    proxy: str = ""
    """Like `http://10.0.0.1:3128`; empty for none."""
    credentials: Credentials = field(default_factory=NoToken)
    login: Login | None = None
    """Used instead of `credentials` if the connection is from a kubeconfig."""
    namespace: str = ""
    """The namespace of objects that name none."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context for TLS to the server; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.login and self.login.identity.pem:
            with pem_file(self.login.identity.pem) as path:
                context.load_cert_chain(path)
        return context

    def headers(self) -> Mapping[str, str]:
        """The headers that authenticate each request."""
        return self.login.identity.headers if self.login else self.credentials.headers()


def in_cluster(
    environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod: the address from the environment; token, CA and namespace from the
    files of its ServiceAccount in `folder`. Raises `NoConnection`."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port:
        raise NoConnection("KUBERNETES_SERVICE_HOST and _PORT are not set: use a kubeconfig file")
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
