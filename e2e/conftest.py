"""Fixtures of the end-to-end tests: a running cluster, kubectl, and a namespace a test."""

import gc
import logging
import os
import re
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import measured
from e2e.cluster import images, spark_image
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.spark_runner import SparkRunner, install_definition, remove_definition
from e2e.cluster.target import Target, current_target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.shared import pytest_runtest_protocol  # noqa: F401 - a hook of all lanes
from e2e.side_by_side import SideBySide

# pytest explains failed asserts only in test modules, so this helper package is registered, too.
pytest.register_assert_rewrite("e2e.clients.first_hour")

# Lanes with client libraries and programs that are not ours. kafka-python leaves the sockets of
# refused connections open and waits for answers when it is garbage-collected. The warnings of that
# appear in any later test, which did not cause them, so they are ignored in these lanes.
REAL = (
    "change",
    "clients",
    "cluster",
    "dist",
    "lifecycle",
    "main",
    "platform",
    "security",
    "spark",
    "transactions",
)
LEFT_OPEN = (
    "ignore:unclosed <(socket|ssl).:ResourceWarning",
    "ignore:Exception ignored in. <function KafkaProducer:pytest.PytestUnraisableExceptionWarning",
)


# Timeout of the first test with a cluster: its setup starts the cluster, for which a new machine
# compiles Kubernetes.
PREPARING_LIMIT_S = 3_600


@pytest.hookimpl(trylast=True)  # deselected tests are already removed from `items`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by `stage`, and give tests with foreign clients their warning filters.

    The first test with a cluster also gets the long timeout, because its setup starts the cluster.
    """
    items.sort(key=stage)
    for item in items:
        if is_real(item):
            item.add_marker(pytest.mark.filterwarnings(*LEFT_OPEN))
    first = next((item for item in items if "target" in getattr(item, "fixturenames", ())), None)
    if first is not None:
        first.add_marker(pytest.mark.timeout(PREPARING_LIMIT_S), append=False)


def is_real(item: pytest.Item) -> bool:
    """Whether the test's lane uses client libraries or programs that are not ours."""
    return any(map(item.get_closest_marker, REAL))


def stage(item: pytest.Item) -> tuple[bool, bool, bool]:
    """Sort key of a test; False sorts before True, equal keys keep the order of collection.

    Tests that start and stop the whole cluster (`lifecycle`) come first, tests with the operator
    last. At the very end come modules with `RUNS_LAST`: they remove what other tests need.
    """
    module = item.getparent(pytest.Module)
    fixtures = getattr(item, "fixturenames", ())
    return (
        item.get_closest_marker("lifecycle") is None,
        item.get_closest_marker("main") is not None or "operator" in fixtures,
        module is not None and getattr(module.obj, "RUNS_LAST", False),
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SideBySide | None:
    """The scheduler for lanes that run in parallel; unit tests are distributed one by one."""
    return SideBySide(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collect garbage after the last test with foreign clients, without its ResourceWarnings.

    Otherwise the next test, which uses no such client, would get the warnings.
    """
    if is_real(item) and (nextitem is None or not is_real(nextitem)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In an xdist worker: send the measured figures to the process that prints the summary."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["measured"] = measured.noted()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """An xdist worker has ended: take over the figures that it measured."""
    measured.take(getattr(node, "workeroutput", {}).get("measured", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's objects and logs to the report of a failed test."""
    report = yield
    subject = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and call.when == "call" and isinstance(subject, BrokerClusterUnderTest):
        report.sections.extend(evidence.gather(subject.kubectl))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the measured figures of the run; no section where there are none."""
    if lines := measured.noted():
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture
def no_log_lines() -> Iterator[None]:
    """Turn logging off during a test: a simulated cluster under faults logs very much."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    """The cluster that CLUSTER names, with the images loaded; KEEP_CLUSTER leaves it running."""
    one = current_target()
    one.up(fresh=False)
    if one.loads_images:
        one.load(images.built())
    yield one
    if not os.environ.get("KEEP_CLUSTER"):
        one.down()


@pytest.fixture(scope="session")
def operator(target: Target) -> Iterator[Operator]:
    """The operator, installed by its chart. A test that changes it restores it."""
    one = Operator.on(target)
    one.install()
    one.wait_whole()
    yield one
    if not os.environ.get("KEEP_CLUSTER"):
        one.uninstall()


@pytest.fixture
def faults(target: Target) -> None:
    """For tests that break nodes: skips them, with the reason, where the nodes are not ours."""
    if not target.has_faults:
        pytest.skip("faults are made only on CLUSTER=local: these nodes are not ours to break")


@pytest.fixture
def kubectl(target: Target, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, `e2e-<test name>`, removed after it."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    one = Kubectl(target.kubeconfig, f"e2e-{stem[:50].strip('-')}")
    one.recreate_namespace()
    yield one
    one.delete_namespace()


@pytest.fixture(scope="session")
def base_image() -> str:
    return images.base().reference


@pytest.fixture(scope="session")
def spark_jobs_image(target: Target) -> str:
    """Reference of the Spark jobs' image, which is loaded into the nodes."""
    image = spark_image.build()
    target.load([image])
    return image.reference


@pytest.fixture(scope="session")
def spark_runner(target: Target) -> Iterator[SparkRunner]:
    """The program that runs SparkApplications, with their CRD; both are removed afterwards."""
    kubectl = Kubectl(target.kubeconfig, "default")
    install_definition(kubectl)
    try:
        with SparkRunner(target.kubeconfig) as runner:
            yield runner
    finally:
        remove_definition(kubectl)


@pytest.fixture(scope="session")
def checkout() -> Path:
    return Path(__file__).resolve().parents[1]
