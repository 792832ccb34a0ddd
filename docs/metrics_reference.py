"""The reference page of metrics, made from the collectors themselves.

A standalone broker is started for it on a free port, so that the page has exactly the metrics of a
scrape.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry

from chiplog_broker.broker import Broker
from chiplog_broker.directory_ports import directory_ports
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.server.exposition.partitions import PARTITION_SERIES, PARTITION_SIZE
from chiplog_broker.server.exposition.topics import SIZE_SERIES, TOPIC_SERIES
from chiplog_core.telemetry.series import Series
from chiplog_operator.groups import collector as groups
from chiplog_operator.metrics import Metrics

CLIENTS_OWN: Final = "process_"
ABOUT: Final = """# Metrics

Brokers and the operator answer `GET /metrics` on port 9404 (`metrics` in their pods). This page is
generated from their answers. Both also have the `process_…` metrics of every Prometheus client:
CPU, memory, open files.

Names that start with `kafka_` have the same meaning as in Apache Kafka, or in the exporter that
has them. Series of deleted objects disappear, and their counters start at 0 if the object is
created again.
"""
OF_BROKER: Final = """## Brokers

A broker does not export the name of its cluster: the labels `namespace`, `cluster` and `pod` come
from
the scrape. Only one broker at a time exports a series about a whole topic or partition, so sums
over all brokers are right. Every broker exports `kafka_brokers` and, in
`kafka_controller_kafkacontroller_offlinepartitionscount`, the partitions without a leader, so use
the maximum.
"""
OF_TOPICS: Final = """### Of each topic

Traffic is counted for the replicas on the broker, since it started.
"""
OF_PARTITIONS: Final = f"""### Of each partition

Only with `spec.metrics.partitions: true` in the BrokerCluster, or `chiplog.metrics.partitions=true`
in the `server.properties` of a standalone broker: about ten series per partition. In a cluster
a change takes effect without a restart. `{SIZE_SERIES.name}` then also has the label `partition`,
on every broker with a replica; only leaders export the other series.
"""
OF_OPERATOR: Final = """## Operator

`namespace` is that of the object, so the scrape must leave it as it is (`honorLabels: true`).
Only the process that holds the Lease exports series about clusters.
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
    """The metrics of a broker as a whole, from a standalone broker that runs only for this call."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        listener = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
        broker = Broker(
            directory_ports("--standalone", folder), {}, [listener], str(folder / "data")
        )
        await broker.start()
        try:
            return list(of_registry(broker.exposition().registry))
        finally:
            await broker.stop()


def of_registry(registry: CollectorRegistry) -> Iterator[Row]:
    """Every metric of a registry, without the `process_…` metrics that all processes have."""
    labels: dict[str, tuple[str, ...]] = {}
    # A metric with labels that has no value yet shows its labels only in this private mapping.
    for collector, names in registry._collector_to_names.items():  # noqa: SLF001
        labels |= dict.fromkeys(names, getattr(collector, "_labelnames", ()))
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.startswith(CLIENTS_OWN):
            own = getattr(family, "_labelnames", ()) or labels.get(name, ())
            yield Row(name, family.type, own, family.documentation)


def of_series(found: Iterable[Series[Any]], labels: Sequence[str]) -> Iterator[Row]:
    """A row for each of our own series; all of them have the same labels."""
    for one in found:
        yield Row(one.name, one.type, labels, one.text)


def table(rows: Iterable[Row]) -> str:
    """A Markdown table of metrics, sorted by name."""
    lines = ["| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for one in sorted(rows):
        labels = ", ".join(f"`{label}`" for label in one.labels)
        text = one.text.replace("|", r"\|")
        lines.append(f"| `{one.name}` | {one.type} | {labels} | {text} |")
    return "\n".join(lines) + "\n"
