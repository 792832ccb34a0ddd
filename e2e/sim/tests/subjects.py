"""The two API servers of the contract: the simulated one, and whichever the cluster has."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from chiplog_kube.api import KubeApi
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_kube.kinds import Kind
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import Target
from e2e.sim.api_server import ApiServer
from e2e.sim.api_store import ApiStore
from e2e.sim.loop import SimLoop
from e2e.sim.network import Network

THINGS = Kind("contract.chiplog.dev/v1", "Thing", "things")
"""A kind of the tests' own, so that no operator acts on its objects."""
NAMESPACE = "e2e-api-contract"
Scenario = Callable[[KubeApi], Awaitable[None]]


class Subject(Protocol):
    """One API server."""

    def run(self, scenario: Scenario) -> None:
        """From its beginning to its end."""

    def forget_history(self) -> str:
        """An old resource version that nothing can be watched from."""


class Simulated:
    """A new one for each test, on a virtual clock."""

    def __init__(self) -> None:
        self._loop = SimLoop()
        self._store = ApiStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))
        chance = random.Random(1)  # noqa: S311 - not for secrets
        network = Network(self._loop, chance)
        self._server = ApiServer(self._loop, self._store, network, chance, Counter())

    def run(self, scenario: Scenario) -> None:
        async def whole() -> None:
            async with asyncio.timeout(600):
                await scenario(self._server.client("contract"))

        try:
            self._loop.run_until_complete(whole())
        finally:
            self._loop.close()

    def forget_history(self) -> str:
        self._store.version += 1
        self._store.compact()
        return "1"


class Real:
    """The cluster's; objects of one test are those with its name as label."""

    def __init__(self, target: Target) -> None:
        self._connection = find(target.kubeconfig)

    def run(self, scenario: Scenario) -> None:
        async def with_api() -> None:
            limits = Limits(watch_s=15, page_items=2)
            async with HttpKubeApi(self._connection, limits) as api:
                await asyncio.wait_for(scenario(api), timeout=60)

        asyncio.run(with_api())

    def forget_history(self) -> str:
        return "1"  # of the time before the first object of this cluster


def install(target: Target) -> Kubectl:
    """The definition of `THINGS`, served, and an empty namespace."""
    kubectl = Kubectl(target.kubeconfig, NAMESPACE)
    kubectl.apply(json.dumps(DEFINITION))
    name = DEFINITION["metadata"]["name"]  # type: ignore[index]
    kubectl("wait", f"crd/{name}", "--for=condition=Established", "--timeout=30s")
    kubectl.recreate_namespace()
    return kubectl


def remove(kubectl: Kubectl) -> None:
    kubectl.delete_namespace()
    kubectl("delete", "crd", "things.contract.chiplog.dev", "--wait=false")


_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.contract.chiplog.dev"},
    "spec": {
        "group": "contract.chiplog.dev",
        "names": {
            "kind": "Thing",
            "plural": "things",
            "singular": "thing",
            "listKind": "ThingList",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _ANYTHING, "status": _ANYTHING},
                    }
                },
            }
        ],
    },
}
