"""Fixtures of the tests that run Spark: one session in this process, one broker by itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from e2e.clients.subject import subject
from e2e.kafka.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A hang guard: a JVM starts within it also on a machine that is busy with other things.
LIMIT_S = 600
# py4j leaves its sockets to the collector, and Spark's own modules use what is to go.
NOT_OURS = (
    "ignore:unclosed <socket:ResourceWarning",
    "ignore::DeprecationWarning:pyspark",
    "ignore::FutureWarning:pyspark",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Items are those of all folders: what a test says of itself counts."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(*NOT_OURS))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker. No test stops it or leaves it other than it was, but for topics."""
    with subject()(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture(scope="session")
def spark() -> "SparkSession":
    """The one session of this process, small, on loopback only, that knows `chiplog`."""
    from chiplog_spark.source.register import register  # noqa: PLC0415
    from e2e.spark.session import local_session  # noqa: PLC0415

    session = local_session()
    register(session)
    return session
