"""The two API servers, Kubernetes' own and the simulator's, each with its own event loop.

Both get the same calls of the port `KubeApi`; the real one over HTTP, by the client that operator
and brokers use. Only one of the two loops runs at a time.
"""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import yaml

from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi
from chiplog_kube.connection import Connection, Token
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_kube.kinds import DEFINITIONS, PODS, Kind
from e2e.cluster.layout import CHECKOUT
from e2e.kafka.members import wait_for
from e2e.loopback import api_server as real
from e2e.sim.api_server import ApiServer
from e2e.sim.api_store import ApiStore
from e2e.sim.loop import SimLoop
from e2e.sim.network import Network
from e2e.sim.tests.subjects import DEFINITION, THINGS

T = TypeVar("T")
NODE_PORTS: Final = range(24_000, 24_100)
MOST_S: Final = 60.0
OWN: Final = (
    THINGS,
    kinds.BROKER_CLUSTERS,
    kinds.TOPICS,
    kinds.CONSUMER_GROUPS,
    kinds.BROKERS,
    kinds.PARTITION_MAPS,
    kinds.VERIFICATIONS,
    kinds.REBALANCES,
)
PAGE_ITEMS: Final = 3
"""A small page size, so that most lists have several pages."""


class Outcome(NamedTuple):
    """The result of a call: its value, or the class and message of its `ApiError`."""

    value: object = None
    error: str = ""
    message: str = ""


class Side:
    """One of the two servers, with its loop and client."""

    def __init__(self, loop: asyncio.AbstractEventLoop, api: KubeApi) -> None:
        self.loop, self.api = loop, api

    def do(self, call: Callable[[KubeApi], Awaitable[object]]) -> Outcome:
        """Run the loop until this call is answered; raises `TimeoutError` after `MOST_S`."""

        async def bounded() -> Outcome:
            try:
                async with asyncio.timeout(MOST_S):
                    return Outcome(await call(self.api))
            except ApiError as error:
                return Outcome(error=type(error).__name__, message=str(error))

        return self.loop.run_until_complete(bounded())

    def wait(self, seconds: float) -> None:
        """Run the loop for this long, so that watches get their events."""
        self.loop.run_until_complete(asyncio.sleep(seconds))


_DEEP: Final = {"type": "object", "properties": {n: {"type": "integer"} for n in ("c", "d")}}
_CONDITION: Final = {
    "type": "object",
    "properties": {n: {"type": "string"} for n in ("type", "status")},
}
SCHEMA: Final[real.Manifest] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "on": {"type": "boolean"},
                "deep": _DEEP,
                "many": {"type": "array", "items": {"type": "integer"}},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {"type": "array", "items": _CONDITION},
                "deep": _DEEP,
            },
        },
    },
}
"""The schema of `THINGS`. Server-side apply tracks the owner of each field that a schema names."""


def definition() -> real.Manifest:
    """The CustomResourceDefinition of `THINGS`, with `SCHEMA`."""
    made: real.Manifest = copy.deepcopy(DEFINITION)
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = SCHEMA
    return made


@contextmanager
def started(directory: Path) -> Iterator[real.ApiServer]:
    """The real API server while the block runs, with Chiplog's CRDs and that of `THINGS`."""
    with real.ApiServer(directory, NODE_PORTS) as server:
        for manifest in (definition(), *own_definitions()):
            server.ask("POST", f"{DEFINITIONS.prefix}/{DEFINITIONS.plural}", manifest)

        wait_for("all kinds are served", lambda: all(is_served(server, kind) for kind in OWN))
        yield server


def own_definitions() -> list[real.Manifest]:
    return [yaml.safe_load(path.read_text()) for path in sorted((CHECKOUT / "crds").glob("*.yaml"))]


def is_served(server: real.ApiServer, kind: Kind) -> bool:
    return server.find(f"{kind.prefix}/{kind.plural}") is not None


def make_namespace(server: real.ApiServer, name: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    server.ask("POST", "/api/v1/namespaces", manifest)


@contextmanager
def real_side(server: real.ApiServer) -> Iterator[Side]:
    """The real server, with the client of operator and brokers."""
    connection = Connection(
        server=server.url, ca=server.authority.read_bytes(), credentials=Token(server.token)
    )
    loop = asyncio.new_event_loop()
    api = HttpKubeApi(connection, Limits(page_items=PAGE_ITEMS))
    try:
        yield Side(loop, api)
    finally:
        loop.run_until_complete(ended(api.close))
        loop.close()


@contextmanager
def simulated_side() -> Iterator[Side]:
    """A new simulated server, without faults."""
    loop = SimLoop()
    chance = random.Random(1)  # noqa: S311 - not for secrets
    store = ApiStore(lambda: datetime(2026, 1, 1, tzinfo=UTC), held=frozenset({PODS}))
    network = Network(loop, chance)
    server = ApiServer(loop, store, network, chance, Counter())
    try:
        yield Side(loop, server.client("oracle"))
    finally:
        loop.run_until_complete(ended(None))
        loop.close()


async def ended(close: Callable[[], Awaitable[object]] | None) -> None:
    """Cancel all other tasks of this loop, then call `close`, if given."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if close is not None:
        await close()
