"""The lag of a group from four sources: Kafka's requests, the ConsumerGroup's status, a watch on
it, and the operator's metrics.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from chiplog_core.naming import api
from chiplog_kube import kinds
from chiplog_kube.finding import find
from chiplog_kube.http_api import HttpKubeApi
from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.main.topic_watch import TopicWatch

LAG_LINE = "jsonpath={.metadata.name}={.status.totalLag};\n"
FLUSH_LIMIT_S = 30
LAG_METRIC = "kafka_consumergroup_lag"
BURST_RECORDS = 1_000
READERS = 8

ReadMetrics = Callable[[], str]
"""Returns the metrics of the active operator, as Prometheus scrapes them."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group that reads one topic, and its ConsumerGroup object of the same name."""

    kubectl: Kubectl
    bootstrap: str
    name: str
    topic: str
    partitions: int

    def apply(self, cluster: str, **spec: object) -> None:
        """Create the object and wait until its status reports the group."""
        self.kubectl.apply(json.dumps(group_manifest(self.name, cluster, **spec)))
        eventually(
            f"ccg/{self.name} has a state in its status", lambda: "state" in self.status(), 30
        )

    def status(self) -> dict[str, object]:
        found: dict[str, object] = self.kubectl.get("ccg", self.name).get("status", {})
        return found

    def reported(self) -> dict[int, int]:
        """Partition -> lag, from the object's status."""
        partitions = self.status().get("partitions", ())
        assert isinstance(partitions, list)
        return {one["partition"]: one["lag"] for one in partitions}

    def measured(self, metrics: str) -> dict[int, int]:
        """Partition -> lag, from the operator's metrics in Prometheus' text format."""
        found = {}
        for line in metrics.splitlines():
            if line.startswith(f"{LAG_METRIC}{{") and f'consumergroup="{self.name}"' in line:
                partition = line.partition('partition="')[2].partition('"')[0]
                found[int(partition)] = int(float(line.rpartition(" ")[2]))
        return found

    def by_kafka(self) -> dict[int, int]:
        """Partition -> lag, from Kafka's requests: high watermark minus committed offset.

        Partitions without a commit are left out.
        """
        with self._consumer() as consumer:
            committed = consumer.committed(self._all(), timeout=20)
            return {
                one.partition: consumer.get_watermark_offsets(one, timeout=20)[1] - one.offset
                for one in committed
                if one.offset >= 0
            }

    def commit(self, behind: Mapping[int, int]) -> None:
        """Commit offsets with this lag: `behind` is partition -> records before the end."""
        with self._consumer() as consumer:
            ends = {n: self._end(consumer, n) for n in behind}
            consumer.commit(
                offsets=[
                    TopicPartition(self.topic, n, ends[n] - left) for n, left in behind.items()
                ],
                asynchronous=False,
            )

    def _end(self, consumer: "_Closed", partition: int) -> int:
        """The high watermark of a partition of the topic."""
        at = TopicPartition(self.topic, partition)
        return int(consumer.get_watermark_offsets(at, timeout=20)[1])

    def _consumer(self) -> "_Closed":
        return _Closed({"bootstrap.servers": self.bootstrap, "group.id": self.name, **QUIET})

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]


class _Closed(Consumer):
    """A consumer that is closed at the end of its `with` block."""

    def __enter__(self) -> "_Closed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def group_manifest(name: str, cluster: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": api.API_VERSION,
        "kind": api.CONSUMER_GROUP.kind,
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": cluster}, **spec},
    }


def produce(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Produce `count` records to the partitions in turn.

    Returns when the last was acknowledged, by the monotonic clock.
    """
    last_s = 0.0

    def report(error: KafkaError | None, _: "Message[bytes, bytes]") -> None:
        nonlocal last_s
        assert error is None, str(error)
        last_s = time.monotonic()

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})
    for number in range(count):
        producer.produce(topic, b"%06d" % number, partition=number % partitions, on_delivery=report)
        producer.poll(0)
    assert producer.flush(FLUSH_LIMIT_S) == 0
    return last_s


def seconds_until_shown(group: Group, limit_s: float) -> float:
    """Produce 1,000 records; returns the seconds until the object's status has a lag of 1,000.

    The time begins with the acknowledgement of the last record. It may be slightly negative, since
    the producer gets the acknowledgement after the record is stored. The group's lag must be 0
    before.
    """
    with TopicWatch(group.kubectl, "ccg", LAG_LINE, "--watch") as watch:
        watch.until(group.name, "0;")
        ended_s = produce(group.bootstrap, group.topic, group.partitions, BURST_RECORDS)
        return watch.until(group.name, f"{BURST_RECORDS};", limit_s) - ended_s


def read_often(group: Group, reads: int) -> list[int]:
    """Read the object `reads` times; returns all lags found, of each partition and in total."""
    return asyncio.run(_read_often(group, reads))


async def _read_often(group: Group, reads: int) -> list[int]:
    """As `READERS` concurrent clients, read the ConsumerGroup object `reads` times.

    Returns all lags found, of each partition and in total.
    """
    found: list[int] = []
    kubectl = group.kubectl
    async with HttpKubeApi(find(kubectl.kubeconfig)) as kube:

        async def some(count: int) -> None:
            for _ in range(count):
                one = await kube.get(kinds.CONSUMER_GROUPS, kubectl.namespace, group.name)
                status = one.get("status") or {}
                found.extend(each["lag"] for each in status.get("partitions", ()))
                found.append(status["totalLag"])

        await asyncio.gather(*(some(reads // READERS) for _ in range(READERS)))
    return found
