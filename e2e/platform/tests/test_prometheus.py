"""A real Prometheus scrapes operator and brokers: alerts fire, and dashboards have data."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from charts.dashboards.queries import EXAMPLE, queries
from e2e import measured
from e2e.chaos.scene import Scene
from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster import layout, processes
from e2e.cluster.helm import Helm
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import NAMESPACE as OPERATORS
from e2e.main.operator import Operator
from e2e.main.replicas import pod_of, wait_in_sync
from e2e.platform.files import Files
from e2e.platform.prometheus import Prometheus, Target
from e2e.platform.releases import Release
from e2e.platform.tests.conftest import (
    GROUP,
    LAG_OBJECTIVE,
    METRICS_PORT,
    NAMESPACE,
    PARTITIONS,
    TOPIC,
)

pytestmark = [pytest.mark.platform, pytest.mark.timeout(3600 if is_full() else 600)]

DASHBOARDS = layout.CHECKOUT / "charts" / "chiplog-monitoring" / "dashboards"
# Minutes are what users get, and what FULL waits for.
SHORT_FOR: Final = "5s"
# Its half hour outlasts the fault: a kubelet restarts a process that does not respond.
ALWAYS_SHORT: Final = "UnderReplicatedPartitions"
FIRED: Final = (
    "UnderReplicatedPartitions",
    "ConsumerGroupLagObjectiveMissed",
    "KafkaRunningOutOfSpace",
)
FIRE_LIMIT_S = 900 if is_full() else 60
QUIET_LIMIT_S = 120
LEFT = 0.1
"""What is left of a disk that is nearly full."""


def is_short(alert: str) -> bool:
    return not is_full() or alert == ALWAYS_SHORT


def rules(files: Files) -> dict[str, Any]:
    """The chart's, as a rule file."""
    helm = Helm(files.kubectl.kubeconfig, OPERATORS)
    alerts = {name: {"for": SHORT_FOR} for name in FIRED if is_short(name)}
    rendered = Release(helm, "monitoring", "chiplog-monitoring").rendered({"alerts": alerts})
    found = [
        group
        for one in yaml.safe_load_all(rendered)
        if one and one["kind"] == "PrometheusRule"
        for group in one["spec"]["groups"]
    ]
    assert found, rendered[:500]
    return {"groups": found}


def targets(cluster: BrokerClusterUnderTest, operator: Operator) -> dict[str, list[Target]]:
    """The scrape targets that the chart's PodMonitors would find."""

    def target(pod: dict[str, Any], **labels: str) -> Target:
        metadata, address = pod["metadata"], f"{pod['status']['podIP']}:{METRICS_PORT}"
        own = {"namespace": metadata["namespace"], "pod": metadata["name"]}
        return Target(address, {**own, **labels})

    return {
        "chiplog-brokers": [
            target(pod, cluster=pod["metadata"]["labels"]["chiplog.dev/cluster"])
            for pod in cluster.pods()
            if pod["status"].get("podIP")
        ],
        "chiplog-operator": [target(pod) for pod in operator.pods() if pod["status"].get("podIP")],
    }


@pytest.fixture(scope="module")
def prometheus(
    cluster: BrokerClusterUnderTest,
    operator: Operator,
    files: Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Prometheus]:
    """Running, with all pods among its targets."""
    wait_in_sync(cluster)
    directory = tmp_path_factory.mktemp("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Prometheus(directory, port, rules(files)) as one:
        found = targets(cluster, operator)
        one.discovered(found)
        count = sum(map(len, found.values()))

        def is_scraped() -> bool:
            health = one.up()
            assert (len(health), set(health.values())) == (count, {"up"}), health
            return True

        eventually("all are scraped", is_scraped, 30)
        yield one


@pytest.fixture
def scene(cluster: BrokerClusterUnderTest, operator: Operator) -> Scene:
    return Scene(cluster, operator, TOPIC)


@contextmanager
def behind(bootstrap: str) -> Iterator[None]:
    """A group that has not read more than its objective allows; afterwards it has."""
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer({**settings, **QUIET})

    def commit(offset: int) -> None:
        (done,) = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        assert done.error is None, done

    commit(0)
    records = [Record(b"late", b"key")] * (3 * LAG_OBJECTIVE)
    Librdkafka().produce(bootstrap, TOPIC, records, partition=0)
    try:
        yield
    finally:
        commit(end_offsets(bootstrap, TOPIC, [0])[0])
        consumer.close()


@contextmanager
def nearly_full(volume: Path) -> Iterator[None]:
    """Within the block a file takes what would leave too much of a disk."""
    usage = os.statvfs(volume)
    take = int((usage.f_bavail - LEFT * usage.f_blocks) * usage.f_frsize)
    assert take > 0, f"{volume} is full already"
    filler = volume / "filler"
    try:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, take)
        yield
    finally:
        filler.unlink(missing_ok=True)


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("alert", FIRED)
def test_an_alert_fires_and_ends(
    alert: str, prometheus: Prometheus, scene: Scene, cluster: BrokerClusterUnderTest
) -> None:
    """The alert fires during the fault, and ends after it."""
    broker = scene.some_leader()
    faults = {
        "UnderReplicatedPartitions": (partial(processes.paused, scene.processes(broker)), {}),
        "ConsumerGroupLagObjectiveMissed": (
            partial(behind, cluster.bootstrap),
            {"consumergroup": GROUP},
        ),
        "KafkaRunningOutOfSpace": (
            partial(nearly_full, scene.volume(broker)),
            {"pod": pod_of(cluster, broker)},
        ),
    }
    fault, labels = faults[alert]
    prometheus.wait_quiet(alert, QUIET_LIMIT_S)
    with fault():
        of_cluster = {"namespace": NAMESPACE, "cluster": cluster.name}
        fired_s = prometheus.wait_firing(alert, FIRE_LIMIT_S, **of_cluster, **labels)
    ended_s = prometheus.wait_quiet(alert, QUIET_LIMIT_S)
    waited = SHORT_FOR if is_short(alert) else "as users have it"
    measured.note(
        f"{alert}: fired {fired_s:.1f} s after the fault began (for: {waited}), over "
        f"{ended_s:.1f} s after its end"
    )
    cluster.wait_cluster_ready()
    wait_in_sync(cluster)


@contextmanager
def clients_at_work(bootstrap: str) -> Iterator[None]:
    """Producers and readers within the block, so that rates are those of something."""
    ends = threading.Event()

    def work() -> None:
        while not ends.wait(0.2):
            Librdkafka().produce(bootstrap, TOPIC, [Record(b"value", b"key")] * 20, partition=0)
            Librdkafka().consume(bootstrap, TOPIC, 0, 20)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(60)
        assert not thread.is_alive(), "clients hang"


@pytest.mark.parametrize("name", sorted(path.stem for path in DASHBOARDS.glob("*.json")))
def test_every_query_of_a_dashboard_has_data(
    name: str, prometheus: Prometheus, cluster: BrokerClusterUnderTest
) -> None:
    values = {**EXAMPLE, "namespace": NAMESPACE, "cluster": cluster.name}
    wanted = queries(json.loads((DASHBOARDS / f"{name}.json").read_text()), values)
    assert len(wanted) > 3

    def without_data() -> list[str]:
        return [f"{one.panel}: {one.expr}" for one in wanted if not prometheus.query(one.expr)]

    def all_have_data() -> bool:
        assert not (found := without_data()), "\n".join(found)
        return True

    with clients_at_work(cluster.bootstrap):
        took_s = eventually(f"every query of {name} has data", all_have_data, 60, every_s=1)
    measured.note(f"dashboard {name}: {len(wanted)} queries, all with data after {took_s:.0f} s")


def test_no_alert_fires_where_all_is_well(prometheus: Prometheus) -> None:
    """What the tests before have left may be pending, as a pause is in averages of minutes."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < 10:
        assert not (found := prometheus.query('ALERTS{alertstate="firing"}')), found
        time.sleep(1)
    assert prometheus.query(f'kafka_topic_partitions{{topic="{TOPIC}"}}')
    assert int(prometheus.query("count(up == 1)")[0]["value"][1]) >= PARTITIONS
