"""Fixtures: a cluster that may be hurt, with volumes of their own, and what became of it."""

import logging
from collections.abc import Iterator

import pytest
import yaml
from rich.console import Console

from e2e.chaos.report import table
from e2e.chaos.run import Result
from e2e.chaos.scene import Scene
from e2e.chaos.workload import PARTITIONS
from e2e.cluster.target import Target
from e2e.main.broker_cluster import ORDERS, BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import cluster_in, make_topic

NAME, NAMESPACE = "chaos", "e2e-chaos"
# A disk that can be filled, and held back without holding back others.
STORAGE = {"class": "local-sized", "size": "1Gi"}
# The scrub runs all the time, not once a day.
CONFIG = {"chiplog.scrub.interval.ms": 2_000}
TABLE_WIDTH = 160
SAFE = {"min.insync.replicas": 2}


def broker_cluster() -> str:
    """The first example under another name, on volumes that end where they say."""
    cluster, _ = yaml.safe_load_all(ORDERS.read_text())
    cluster["metadata"]["name"] = NAME
    cluster["spec"]["storage"] = STORAGE
    cluster["spec"]["config"] = CONFIG
    return str(yaml.safe_dump(cluster))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence kafka-python, so that its open sockets are closed soon.

    pytest keeps log records, with the frames of their errors, and so the sockets in those frames.
    """
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@pytest.fixture(scope="module")
def cluster(target: Target, operator: Operator) -> Iterator[BrokerClusterUnderTest]:
    """Three brokers in a namespace of their own, which every test leaves whole."""
    with cluster_in(target, NAMESPACE, broker_cluster(), NAME, operator=operator) as one:
        yield one


@pytest.fixture
def scene(
    cluster: BrokerClusterUnderTest, operator: Operator, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """A topic of its own for each test, on a cluster that is whole."""
    topic = request.node.callspec.id
    make_topic(cluster, topic, PARTITIONS, replicas=3, config=SAFE)
    operator.wait_whole()
    yield Scene(cluster, operator, topic)
    cluster.kubectl("delete", "ct", topic, "--wait=false")


@pytest.fixture(scope="module")
def results() -> Iterator[list[Result]]:
    """Tests add to it; at the end it is shown as a table."""
    found: list[Result] = []
    yield found
    if found:
        console = Console(width=TABLE_WIDTH)
        console.print(table(found))
