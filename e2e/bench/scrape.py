"""Measures what a scrape of `/metrics` costs, and compares it with limits.

`python -m e2e.bench.scrape [PARTITIONS]`: a standalone broker with PARTITIONS partitions (10,000 by
default) is scraped as Prometheus does it, first with its default settings and then with series for
every partition. At the same time another client sends small requests: its longest wait is what a
scrape costs others. Then the operator's metrics are rendered for 200 topics and 50 groups. The exit
status is 1 where a limit is exceeded.
"""

import asyncio
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from prometheus_client import disable_created_metrics

from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.watch import GroupFigures
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.group_status import PartitionLag
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.metrics import Metrics
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic
from e2e.cluster.console import console
from e2e.kafka.ports import LOOPBACK

PARTITIONS: Final = 10_000
PARTITIONS_OF_EACH: Final = 100
SCRAPES: Final = 11
BROKER_LIMIT_S: Final = 1.0
TOPICS, GROUPS, TOPICS_OF_EACH, PARTITIONS_READ = 200, 50, 4, 12
OPERATOR_LIMIT_S: Final = 0.2
# ApiVersions 0, correlation id 1, no client id.
PING: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
PING_EVERY_S: Final = 0.005
REST_S: Final = 3.0
LIMIT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Scraped:
    """The measurements of several scrapes in a row; `what` describes what was scraped."""

    what: str
    seconds: list[float]
    size_bytes: int
    series: int
    limit_s: float
    cpu_s: float
    """CPU time that the scraped process took for all scrapes."""
    waits_s: tuple[float, float] | None = None
    """The longest wait of another client (before the scrapes, during them); None: not measured."""

    @property
    def is_met(self) -> bool:
        """Whether even the longest scrape kept the limit."""
        return max(self.seconds) <= self.limit_s

    def __str__(self) -> str:
        wait = ""
        if self.waits_s is not None:
            before_ms, during_ms = (1000 * one for one in self.waits_s)
            wait = f"; another client waited {during_ms:.0f} ms at most, before {before_ms:.0f} ms"
        return (
            f"{self.what}: {self.series:,} series, {self.size_bytes / 1e6:.2f} MB; "
            f"median {median(self.seconds):.3f} s, longest {max(self.seconds):.3f} s, "
            f"limit {self.limit_s:g} s{'' if self.is_met else ' MISSED'}; "
            f"{self.cpu_s / len(self.seconds) * 1000:.0f} ms of CPU each{wait}"
        )


def main(arguments: list[str]) -> int:
    """Measure broker and operator; returns the exit status, 1 where a limit was exceeded."""
    partitions = int(arguments[0]) if arguments else PARTITIONS
    found = []
    with TemporaryDirectory() as directory:
        for one in of_broker(Path(directory), partitions):
            console.print(str(one), markup=False, highlight=False, soft_wrap=True)
            found.append(one)
    found.append(of_operator())
    console.print(str(found[-1]), markup=False, highlight=False, soft_wrap=True)
    return 0 if all(one.is_met for one in found) else 1


def of_broker(directory: Path, partitions: int) -> Iterator[Scraped]:
    """Scrape a broker with its default settings, then with series for every partition."""
    broker = StandaloneBroker(directory / "broker")
    with broker:
        for number in range(partitions // PARTITIONS_OF_EACH):
            create_topic(broker.bootstrap, f"orders-of-shop-{number}", PARTITIONS_OF_EACH)
        yield scraped(f"broker, {partitions:,} partitions", broker)
    broker.settings[METRICS_PARTITIONS.name] = "true"
    with broker:
        yield scraped(f"broker, {partitions:,} partitions, each named", broker)


def scraped(what: str, broker: StandaloneBroker) -> Scraped:
    """Scrape a running broker `SCRAPES` times; `what` describes it."""
    address = f"http://{LOOPBACK}:{broker.side_ports[1]}/metrics"

    def scrape() -> bytes:
        with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
            body: bytes = answer.read()
            return body

    first(scrape)
    with pinging(broker.port) as before:
        time.sleep(REST_S)
    began_s = broker.usage().cpu_s
    with pinging(broker.port) as waits:
        seconds, body = timed(scrape)
    cpu_s = broker.usage().cpu_s - began_s
    longest = max(before), max(waits)
    return Scraped(what, seconds, len(body), series_of(body), BROKER_LIMIT_S, cpu_s, longest)


def first(scrape: Callable[[], bytes]) -> None:
    """Scrape once, not measured, and repeat it until the broker's metrics port answers.

    The port opens a moment after that for clients, and the first scrape loads code.
    """
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            scrape()
            return
        except urllib.error.URLError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def timed(make: Callable[[], bytes]) -> tuple[list[float], bytes]:
    """Call `make` `SCRAPES` times; returns the seconds of each call, and the last result."""
    seconds, body = [], b""
    for _ in range(SCRAPES):
        began_s = time.monotonic()
        body = make()
        seconds.append(time.monotonic() - began_s)
    return seconds, body


def series_of(body: bytes) -> int:
    """Number of series in a scraped page: its lines that are no comments."""
    return sum(not line.startswith(b"#") for line in body.splitlines())


@contextmanager
def pinging(port: int) -> Iterator[list[float]]:
    """Send small requests to a broker while the `with` block runs, from a thread.

    Gives a list that is filled with the seconds that each answer took.
    """
    waits: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        with socket.create_connection((LOOPBACK, port), timeout=LIMIT_S) as client:
            answers = client.makefile("rb")
            while not is_over.wait(PING_EVERY_S):
                began_s = time.monotonic()
                client.sendall(PING)
                (size_bytes,) = struct.unpack(">i", answers.read(4))
                answers.read(size_bytes)
                waits.append(time.monotonic() - began_s)

    asking = threading.Thread(target=ask, name="ping")
    asking.start()
    try:
        yield waits
    finally:
        is_over.set()
        asking.join(LIMIT_S)


class NoListener:
    """A listener of the operator's caches that ignores every change."""

    def cluster_changed(self, cluster: ClusterKey, *, urgent: bool = False) -> None: ...

    def all_clusters_changed(self) -> None: ...

    def lease_changed(self, cluster: ClusterKey, lease: Manifest) -> None: ...

    def pod_changed(self, cluster: ClusterKey, pod: Manifest) -> None: ...

    def groups_changed(self, cluster: ClusterKey) -> None: ...

    def users_changed(self, cluster: ClusterKey) -> None: ...

    def jobs_changed(self) -> None: ...


def of_operator() -> Scraped:
    """Measure the operator's metrics, of one cluster with `TOPICS` topics and `GROUPS` groups.

    They are rendered in this process, without HTTP.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    cluster, metrics, caches = (
        ClusterKey("shop", "demo"),
        Metrics(),
        Caches(NoListener(), NoListener()),
    )
    metrics.objects.show(caches)
    metrics.planned(cluster, 0.1, is_ok=True)
    put(caches, kinds.BROKER_CLUSTERS, cluster.name, {})
    of_cluster: dict[str, object] = {"clusterRef": {"name": cluster.name}}
    for number in range(TOPICS):
        put(caches, kinds.TOPICS, f"orders-{number}", of_cluster)
    figures = []
    for number in range(GROUPS):
        group = f"billing-{number}"
        put(caches, kinds.CONSUMER_GROUPS, group, {**of_cluster, "maxLag": {"records": 10}})
        figures.append(
            GroupFigures(group_id=group, members=3, lags=Lags(partitions=tuple(lags_of(number))))
        )
    metrics.groups.show(cluster, figures)
    began_s = time.process_time()
    seconds, body = timed(lambda: asyncio.run(metrics.text()))
    cpu_s = time.process_time() - began_s
    what = f"operator, {TOPICS} topics, {GROUPS} groups of {TOPICS_OF_EACH * PARTITIONS_READ}"
    return Scraped(
        f"{what} partitions", seconds, len(body), series_of(body), OPERATOR_LIMIT_S, cpu_s
    )


def lags_of(group: int) -> Iterator[PartitionLag]:
    """The lag of each partition that the group with this number reads."""
    for topic in range(TOPICS_OF_EACH):
        for partition in range(PARTITIONS_READ):
            yield PartitionLag(
                topic=f"orders-{(group + topic) % TOPICS}",
                partition=PartitionIndex(partition),
                committed_offset=1_000_000,
                end_offset=Offset(1_000_123),
                lag=123,
                lag_seconds=4,
            )


def put(caches: Caches, kind: Kind, name: str, spec: dict[str, object]) -> None:
    """Put an object into the caches, with conditions that are True."""
    conditions = [{"type": one, "status": "True"} for one in ("Ready", "LagWithinObjective")]
    manifest = {
        "metadata": {"namespace": "shop", "name": name},
        "spec": spec,
        "status": {"conditions": conditions},
    }
    caches[kind].put(manifest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
