"""What is outside of a cluster on Kubernetes: load balancers, and a proxy in front of brokers.

A load balancer here is no more than an address in the status of its Service. kube-proxy forwards
connections to it from this machine, as a node of a cloud does for those that arrive there.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.cluster import build
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.shell import CommandFailed
from e2e.main.broker_cluster import Manifest

BOOTSTRAP: Final = "127.0.96.100"
OTHER_BOOTSTRAP: Final = "127.0.96.200"
OTHER_OF_ONE: Final = "127.0.96.201"
"""Another address of broker 1."""
PROXY: Final = ("127.0.0.1", 24_443)
BROKERS: Final = (1, 2, 3)
WATCHES: Final = 100
"""How often a watch that ended is begun again."""


def address_of(broker_id: int) -> str:
    """The address of the broker's load balancer."""
    return f"127.0.96.{broker_id}"


BALANCED: Final[Manifest] = {
    "name": "lb",
    "type": "loadbalancer",
    "port": 9096,
    "tls": True,
    "authentication": {"type": "tls"},
    "configuration": {
        "bootstrap": {
            # So that no test waits until kubelets have updated the certificates in pods.
            "alternativeNames": [
                BOOTSTRAP,
                OTHER_BOOTSTRAP,
                OTHER_OF_ONE,
                *map(address_of, BROKERS),
            ]
        }
    },
}


def routed(name: str, type_: str, port: int, configuration: Manifest) -> Manifest:
    """A listener whose brokers are behind the proxy, with host names that end in its name."""
    return {
        "name": name,
        "type": type_,
        "port": port,
        "tls": True,
        "advertisedPort": PROXY[1],
        "authentication": {"type": "scram-sha-512"},
        "configuration": {
            "hostTemplate": f"broker-{{nodeId}}.{name}.test",
            "bootstrap": {"host": f"bootstrap.{name}.test"},
            **configuration,
        },
    }


ROUTED: Final = (
    routed("sni", "ingress", 9097, {"class": "passthrough"}),
    routed("gateway", "tlsroute", 9098, {"parentRefs": [{"name": "kafka"}]}),
)
TLS_ROUTES: Final = "tlsroutes.gateway.networking.k8s.io"
DEFINITION: Final[Manifest] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": TLS_ROUTES,
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "gateway.networking.k8s.io",
        "names": {"kind": "TLSRoute", "plural": "tlsroutes"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""TLSRoute as far as the operator needs it: the Gateway API's own says what a route may have."""


@contextmanager
def gateway_api(kubectl: Kubectl) -> Iterator[None]:
    """Kubernetes has TLSRoutes while the block runs."""
    is_there = bool(kubectl("get", "crd", TLS_ROUTES, "--ignore-not-found", "-o", "name").strip())
    if not is_there:
        kubectl.apply(json.dumps(DEFINITION))
        kubectl("wait", "--for=condition=Established", f"crd/{TLS_ROUTES}", "--timeout=60s")
    try:
        yield
    finally:
        if not is_there:
            kubectl("delete", "crd", TLS_ROUTES, "--wait=false")


class LoadBalancers:
    """A controller that gives each Service of type LoadBalancer without an address its own."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._ending = threading.Event()
        self._watch: subprocess.Popen[str] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """The controller works while the block runs."""
        thread = threading.Thread(target=self._run, name="load balancers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            if self._watch is not None:
                self._watch.kill()
            thread.join(timeout=30)

    def set_address(self, service: str, address: str) -> None:
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self._kubectl("patch", "service", service, *patch)

    def _run(self) -> None:
        for _ in range(WATCHES):
            if self._ending.is_set():
                return
            # One line for each Service now, and for each change of one.
            columns = "{.metadata.name},{.spec.type},{.status.loadBalancer.ingress[*].ip}"
            with subprocess.Popen(
                [
                    str(build.program("kubectl")),
                    f"--kubeconfig={self._kubectl.kubeconfig}",
                    f"--namespace={self._kubectl.namespace}",
                    *("get", "services", "--watch", "-o", f'jsonpath={columns}{{"\\n"}}'),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as self._watch:
                assert self._watch.stdout is not None
                if self._ending.is_set():
                    self._watch.kill()
                for line in self._watch.stdout:
                    name, type_, address = line.strip().split(",")
                    if type_ == "LoadBalancer" and not address:
                        self._give(name)

    def _give(self, service: str) -> None:
        """Give a Service its address. One that is gone by now needs none."""
        number = service.rpartition("-ext")[2].removeprefix("-")
        try:
            self.set_address(service, address_of(int(number)) if number else BOOTSTRAP)
        except CommandFailed:
            return
