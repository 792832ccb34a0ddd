"""Fixtures: one Spark, one broker, and a topic a test."""

import re
from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from e2e.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return local_session()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker that no test stops."""
    with subject()(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture
def new_topic(
    broker: BrokerProcess, request: pytest.FixtureRequest
) -> Callable[[int, Mapping[str, str]], str]:
    """Creates a topic named after the test and returns its name."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")

    def create(partitions: int, config: Mapping[str, str]) -> str:
        create_topic(broker.bootstrap, stem, partitions, config)
        return stem

    return create
