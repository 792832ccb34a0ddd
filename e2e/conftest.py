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

# Asserts in classes that several test modules import say as much as those in test modules.
pytest.register_assert_rewrite("e2e.clients.first_hour")

# Lanes with real clients. kafka-python does not close the sockets of connections that were refused,
# and waits for answers when it is collected: whenever that is, no test of ours is to blame.
REAL = ("clients", "cluster", "dist", "lifecycle", "main", "platform", "spark")
LEFT_OPEN = (
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:Exception ignored in. <function KafkaProducer:pytest.PytestUnraisableExceptionWarning",
)


# The first test with a cluster waits for it: a new machine compiles Kubernetes for that.
PREPARING_LIMIT_S = 3_600


@pytest.hookimpl(trylast=True)  # what was not chosen is no longer among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that stop and start the whole cluster come before those that use it.

    Those with an operator come after all others, and of them those last that take away what
    the others stand on.
    """
    items.sort(key=stage)
    for item in items:
        if is_real(item):
            item.add_marker(pytest.mark.filterwarnings(*LEFT_OPEN))
    first = next((item for item in items if "target" in getattr(item, "fixturenames", ())), None)
    if first is not None:
        first.add_marker(pytest.mark.timeout(PREPARING_LIMIT_S), append=False)


def is_real(item: pytest.Item) -> bool:
    """Whether clients take part that are not ours."""
    return any(map(item.get_closest_marker, REAL))


def stage(item: pytest.Item) -> tuple[bool, bool, bool]:
    """Sort key of a test; tests of the same key stay in the order of collection."""
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
    """Collect what clients left open before a test without clients begins: its warnings would be
    that test's."""
    if is_real(item) and (nextitem is None or not is_real(nextitem)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that shares the tests with others sends its figures to the one that reports."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["measured"] = measured.noted()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    measured.take(getattr(node, "workeroutput", {}).get("measured", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show objects and logs with a test that failed."""
    report = yield
    subject = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and call.when == "call" and isinstance(subject, BrokerClusterUnderTest):
        report.sections.extend(evidence.gather(subject.kubectl))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured, where anything was."""
    if lines := measured.noted():
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture
def no_log_lines() -> Iterator[None]:
    """A simulated cluster under faults has much to say."""
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
    """The operator, installed by its chart. No test leaves it other than it was."""
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
    """The image of the Spark jobs, loaded into the nodes: who asks for it is marked."""
    image = spark_image.build()
    target.load([image])
    return image.reference


@pytest.fixture(scope="session")
def spark_runner(target: Target) -> Iterator[SparkRunner]:
    """What runs SparkApplications, and their definition; both are gone afterwards."""
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
