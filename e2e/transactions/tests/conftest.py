"""Three brokers for all tests here: a start of them takes as long as many tests."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.clients.topics import create_topic
from e2e.loopback.cluster import SIZE
from e2e.main.shared import Remedy, Shared, shared
from e2e.transactions.clients import CLIENTS
from e2e.transactions.cluster import ThreeBrokers, subject


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    """A running cluster, which is repaired after a test that leaves it broken."""
    with subject(tmp_path_factory.mktemp("transactions") / "cluster") as members:
        one = ThreeBrokers(members)  # type: ignore[arg-type] # both kinds are `Members`, too
        remedy = Remedy("restarted", one.restart, limit_s=120)
        with shared(Shared("the brokers on loopback", one.wait_whole, (remedy,))):
            yield one


@pytest.fixture(scope="session", autouse=True)
def clients() -> Iterator[None]:
    """What the client libraries need around all tests."""
    with ExitStack() as opened:
        for client in CLIENTS:
            opened.enter_context(client)
        yield


NewTopic = Callable[[int], str]


@pytest.fixture
def new_topic(cluster: ThreeBrokers, request: pytest.FixtureRequest) -> NewTopic:
    """Creates topics that are named after the test, with three replicas; returns the name."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    made: list[str] = []

    def create(partitions: int) -> str:
        made.append(f"{stem}-{len(made)}" if made else stem)
        create_topic(cluster.bootstrap, made[-1], partitions, replicas=SIZE)
        return made[-1]

    return create
