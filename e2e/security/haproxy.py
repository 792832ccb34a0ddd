"""Debian's haproxy as a proxy in front of a cluster.

It finds the broker by the host name in the client's first message (SNI), as Ingresses and TLSRoutes
say, and passes TLS on without ending it."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import debian_packages, layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused, step
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.cluster.packages import apt_alone
from e2e.cluster.shell import run
from e2e.security.outside import PROXY, TLS_ROUTES

Routes = Mapping[str, tuple[str, list[str]]]
"""Name of a backend -> its host name, and its servers' addresses."""

HEAD = f"""global
  maxconn 200
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind {PROXY[0]}:{PROXY[1]}
  tcp-request inspect-delay 5s
  tcp-request content accept if {{ req.ssl_hello_type 1 }}
"""


@contextmanager
def proxy(routes: Routes, directory: Path) -> Iterator[None]:
    """haproxy with these routes, while the block runs."""
    tree = cached(layout.cache() / "tools" / "haproxy", unpack)
    path = directory / "haproxy.cfg"
    path.write_text(configuration(routes))
    libraries = [str(one.parent) for one in tree.rglob("*.so*")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(set(libraries)))}
    program = [str(tree / "usr/sbin/haproxy"), "-db", "-f", str(path)]
    log = directory / "haproxy.log"
    with log.open("w") as output:
        process = subprocess.Popen(program, env=environment, stdout=output, stderr=output)
    try:
        eventually("haproxy listens", lambda: _listens(process, log), 10, every_s=0.05)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def _listens(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"haproxy ended: {log.read_text()}")
    return bool(run("ss", "-Hltn", f"sport = {PROXY[1]}").strip())


def routes_of(kubectl: Kubectl) -> Routes:
    """What the Ingresses of the namespace say, for hosts whose TLS is passed on, and its
    TLSRoutes."""
    found = {}
    for route in kubectl.get(TLS_ROUTES)["items"]:
        (host,) = route["spec"]["hostnames"]
        (rule,) = route["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        servers = _servers(kubectl, backend["name"], backend["port"])
        found[f"tls-{route['metadata']['name']}"] = (host, servers)
    for ingress in kubectl.get("ingress")["items"]:
        annotations = ingress["metadata"]["annotations"]
        if annotations.get("ingress.kubernetes.io/ssl-passthrough") != "true":
            continue
        for rule in ingress["spec"]["rules"]:
            (path,) = rule["http"]["paths"]
            service = path["backend"]["service"]
            servers = _servers(kubectl, service["name"], service["port"]["number"])
            found[ingress["metadata"]["name"]] = (rule["host"], servers)
    return found


def _servers(kubectl: Kubectl, service: str, number: int) -> list[str]:
    """The addresses of the pods behind a port of a Service."""
    ports = kubectl.get("service", service)["spec"]["ports"]
    (target,) = [one["targetPort"] for one in ports if one["port"] == number]
    label = f"kubernetes.io/service-name={service}"
    slices = kubectl.get("endpointslices", "-l", label)["items"]
    addresses = {
        address
        for one in slices
        for endpoint in one["endpoints"]
        for address in endpoint["addresses"]
    }
    return [f"{address}:{target}" for address in sorted(addresses)]


def configuration(routes: Routes) -> str:
    """The text of `haproxy.cfg`."""
    lines = [HEAD]
    for name, (host, _) in routes.items():
        lines.append(f"  use_backend {name} if {{ req.ssl_sni -i {host} }}\n")
    for name, (_, servers) in routes.items():
        lines.append(f"backend {name}\n")
        lines += [f"  server s{number} {one}\n" for number, one in enumerate(servers)]
    return "".join(lines)


def unpack(directory: Path) -> None:
    """Unpack Debian's package, and what it needs beside this machine's packages. It is not
    installed, since installing it would start its service."""
    with step("unpacking Debian's haproxy"), apt_alone():
        installed = Path("/", debian_packages.INSTALLED).read_text()
        archives = directory / "archives"
        try:
            debian_packages.download("haproxy", installed, archives)
        except Refused:
            run("apt-get", "update", "-qq", timeout_s=300)
            debian_packages.download("haproxy", installed, archives)
        for archive in archives.glob("*.deb"):
            run("dpkg-deb", "--extract", str(archive), str(directory))
