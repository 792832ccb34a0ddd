"""An Apache Kafka broker: one node that is broker and controller, on loopback.

Its log directory and that of its cluster metadata lie apart, so that the first can
be a copy of Chiplog's, untouched (`adopt.py`).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from e2e.kafka.java import java
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.kafka.process import BrokerProcess, read_properties, write_properties
from e2e.kafka.tools import run_tool

# As kafka-run-class.sh starts a broker, with 1 GB of heap.
HEAP = ("-Xms1g", "-Xmx1g")
PERFORMANCE = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
# What Chiplog has as its default, and a test should not wait for.
LIKE_OURS = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
# What a cluster of one needs beside it: Kafka's defaults are for three.
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
CLUSTER_ID = "Y2hpcGxvZy1yZWZlcmVuYw"
SYNC_EACH_APPEND = {"log.flush.interval.messages": "1"}


class KafkaBroker(BrokerProcess):
    """Apache Kafka, with Chiplog's defaults where the two differ."""

    title: ClassVar[str] = "Apache Kafka"
    format_options: ClassVar[tuple[str, ...]] = ()
    for_its_size: ClassVar[Mapping[str, str]] = ALONE

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def metadata_directory(self) -> Path:
        return self.home / "metadata"

    def prepare(self) -> None:
        """Write the properties and, the first time, format the storage."""
        identity = self.identity()
        values = {
            "process.roles": "broker,controller",
            "node.id": identity["node.id"],
            "controller.quorum.voters": self.voters(),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.controller}",
            "log.dirs": str(self.logs),
            "metadata.log.dir": str(self.metadata_directory),
            **LIKE_OURS,
            **self.for_its_size,
            **(SYNC_EACH_APPEND if self.fsync else {}),
            **self.settings,
        }
        write_properties(self.properties, values)
        if not (self.metadata_directory / "meta.properties").exists():
            run_tool(
                "kafka-storage.sh",
                *("format", "--ignore-formatted", "--config", str(self.properties)),
                *("--cluster-id", identity["cluster.id"]),
                *self.format_options,
            )
            os.sync()  # the tool does not, and a power cut would find empty files

    @property
    def controller(self) -> str:
        """Host and port of this node's controller."""
        return f"{LOOPBACK}:{self.side_ports[0]}"

    def voters(self) -> str:
        """The value of `controller.quorum.voters`: here only this node."""
        return f"{self.identity()['node.id']}@{self.controller}"

    def identity(self) -> dict[str, str]:
        """`cluster.id` and `node.id`: those in the log directory if it has any, else defaults."""
        written = self.logs / "meta.properties"
        known = read_properties(written) if written.exists() else {}
        return {"cluster.id": CLUSTER_ID, "node.id": "1", **known}

    def command(self) -> list[str]:
        return [*java("kafka.Kafka", (*HEAP, *PERFORMANCE), log="warn"), str(self.properties)]

    def is_ready(self) -> bool:
        """Whether its metadata lists a broker, and a leader for every partition."""
        try:
            answer = metadata(LOOPBACK, self.port)
        except OSError:
            return False
        return bool(answer.brokers) and all(
            leader >= 0 for leaders in answer.leaders.values() for leader in leaders.values()
        )
