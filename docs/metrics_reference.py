"""The reference page of metrics, made from the collectors themselves.

A broker is really started for it, by itself and on an address that the machine chooses, so that
what is on the page is what a scrape has.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry

from chiplog_broker.broker import Broker
from chiplog_broker.folder import folder_ports
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.server.exposition.partitions import PARTITION_SERIES, PARTITION_SIZE
from chiplog_broker.server.exposition.topics import SIZE_SERIES, TOPIC_SERIES
from chiplog_core.telemetry.series import Series
from chiplog_operator.groups import board as groups
from chiplog_operator.metrics import Metrics

CLIENTS_OWN: Final = "process_"
ABOUT: Final = """# Metrics

Brokers and the operator answer `GET /metrics` on port 9404 (`metrics` in their pods). This page is
generated from what they answer. Beside it both have the `process_…` metrics that every Prometheus
client has: CPU, memory, open files.

Names that begin with `kafka_` mean what they mean in Apache Kafka, or in the exporter that has
them. What is gone is not told of any more, and a counter that belongs to it begins at 0 should it
come back.
"""
OF_BROKER: Final = """## Brokers

A broker does not say which cluster it is of: the labels `namespace`, `cluster` and `pod` come from
the scrape. Of a topic as a whole, and of a partition, only one broker tells at a time, so sums over
all brokers are right. Of `kafka_brokers` and of partitions without a leader in
`kafka_controller_kafkacontroller_offlinepartitionscount` every broker tells, so take the maximum.
"""
OF_TOPICS: Final = """### Of each topic

Traffic is that of the replicas on the broker, since it started.
"""
OF_PARTITIONS: Final = f"""### Of each partition

Only with `spec.metrics.partitions: true` in the BrokerCluster, or `chiplog.metrics.partitions=true`
in the `server.properties` of a broker by itself: about ten series for every partition. In a cluster
a change takes effect without a restart. `{SIZE_SERIES.name}` then has the label `partition`, too,
on every broker with a replica; all else is told by leaders alone.
"""
OF_OPERATOR: Final = """## Operator

`namespace` is that of the object, so the scrape must leave it as it is (`honorLabels: true`).
Only the process that holds the Lease tells of clusters.
"""
OF_GROUPS: Final = "### Of each consumer group\n"


class Row(NamedTuple):
    """One metric."""

    name: str
    type: str
    labels: Sequence[str]
    text: str


def page() -> str:
    """The whole page in Markdown."""
    partition = ("topic", "partition")
    parts = [
        ABOUT,
        OF_BROKER,
        table(asyncio.run(of_broker())),
        OF_TOPICS,
        table(of_series((*TOPIC_SERIES, SIZE_SERIES), ("topic",))),
        OF_PARTITIONS,
        table(of_series((*PARTITION_SERIES, PARTITION_SIZE), partition)),
        OF_OPERATOR,
        table(of_registry(Metrics().registry)),
        OF_GROUPS,
        table(
            [
                *of_series(groups.GROUP_SERIES, groups.GROUP_LABELS),
                *of_series(groups.TOPIC_SERIES, (*groups.GROUP_LABELS, "topic")),
                *of_series(groups.PARTITION_SERIES, (*groups.GROUP_LABELS, *partition)),
            ]
        ),
    ]
    return "\n".join(parts)


async def of_broker() -> list[Row]:
    """What a broker tells of itself as a whole."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        listener = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
        broker = Broker(folder_ports("--standalone", folder), {}, [listener], str(folder / "data"))
        await broker.start()
        try:
            return list(of_registry(broker.exposition().registry))
        finally:
            await broker.stop()


def of_registry(registry: CollectorRegistry) -> Iterator[Row]:
    """Every metric that is made by the client for Prometheus, but those that all processes have."""
    labels: dict[str, tuple[str, ...]] = {}
    # What has a label and no value yet says so nowhere but here.
    for collector, names in registry._collector_to_names.items():  # noqa: SLF001
        labels |= dict.fromkeys(names, getattr(collector, "_labelnames", ()))
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.startswith(CLIENTS_OWN):
            own = getattr(family, "_labelnames", ()) or labels.get(name, ())
            yield Row(name, family.type, own, family.documentation)


def of_series(found: Iterable[Series[Any]], labels: Sequence[str]) -> Iterator[Row]:
    for one in found:
        yield Row(one.name, one.type, labels, one.text)


def table(rows: Iterable[Row]) -> str:
    """By name."""
    lines = ["| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for one in sorted(rows):
        labels = ", ".join(f"`{label}`" for label in one.labels)
        text = one.text.replace("|", r"\|")
        lines.append(f"| `{one.name}` | {one.type} | {labels} | {text} |")
    return "\n".join(lines) + "\n"
