"""Fixtures of the tests that run Spark: one session in this process, one broker by itself."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.clients.subject import subject
from e2e.kafka.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Java 17 where Debian's package puts it; JAVA_HOME says otherwise.
JAVA_HOME = "/usr/lib/jvm/java-17-openjdk-amd64"
# A hang guard: a JVM starts within it also on a machine that is busy with other things.
LIMIT_S = 600
# py4j leaves its sockets to the collector, and Spark's own modules use what is to go.
NOT_OURS = (
    "ignore:unclosed <socket:ResourceWarning",
    "ignore::DeprecationWarning:pyspark",
    "ignore::FutureWarning:pyspark",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(*NOT_OURS))
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker. No test stops it or leaves it other than it was, but for topics."""
    with subject()(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One session in local mode for all tests, small, on loopback only, that knows `chiplog`."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from chiplog_spark.source.register import register  # noqa: PLC0415

    os.environ.setdefault("JAVA_HOME", JAVA_HOME)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Executors are processes of their own, and find our packages where this one does.
    here = os.pathsep.join(one for one in sys.path if one and Path(one).is_dir())
    os.environ["PYTHONPATH"] = here
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.Builder()
        .master("local[2]")
        .appName("chiplog tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.task.maxFailures", "1")
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()
