"""Apache Kafka as a cluster of three: each node broker and controller, as its defaults are.

Each has the heap of `broker.py`, 1 GiB, which is the default of kafka-server-start.sh: three
take at most 4 GB of this machine. They end with the process that started them.
"""

import shutil
import subprocess
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from chiplog_core.ids import Uuid
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.members import wait_whole
from e2e.kafka.process import read_properties, write_properties
from e2e.kafka.running import Running

SIZE = 3


class KafkaNode(KafkaBroker):
    """One of several. `quorum` is filled in once all of them have their ports."""

    for_its_size: ClassVar[Mapping[str, str]] = {}  # Kafka's defaults: three replicas, two in sync

    def __init__(
        self, directory: Path, node_id: int, quorum: list[str], settings: Mapping[str, str] | None
    ) -> None:
        super().__init__(directory, settings=settings)
        self.node_id, self.quorum = node_id, quorum

    def identity(self) -> dict[str, str]:
        return {**super().identity(), "node.id": str(self.node_id)}

    def voters(self) -> str:
        return ",".join(self.quorum)

    def format_like(self, other: "KafkaNode") -> None:
        """Copy another node's formatted directories and write this node's ids into them.

        The result is that of kafka-storage.sh, without another start of Java.
        """
        for ours, theirs in (
            (self.logs, other.logs),
            (self.metadata_directory, other.metadata_directory),
        ):
            shutil.copytree(theirs, ours)
            written = read_properties(ours / "meta.properties")
            directory_id = str(Uuid(uuid.uuid4().bytes))
            own = {"node.id": str(self.node_id), "directory.id": directory_id}
            write_properties(ours / "meta.properties", written | own)


class KafkaCluster(Running):
    """Three Kafka nodes, which are killed when this context manager is left."""

    title = KafkaBroker.title

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        quorum: list[str] = []
        self.nodes = {
            number: KafkaNode(directory / f"node-{number}", number, quorum, settings)
            for number in range(1, SIZE + 1)
        }
        quorum += [f"{number}@{node.controller}" for number, node in self.nodes.items()]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def ports(self) -> dict[int, int]:
        return {number: node.port for number, node in self.nodes.items() if node.child is not None}

    def start(self) -> None:
        """Start all nodes, then wait until each knows all: one alone would have no quorum."""
        first, *others = self.nodes.values()
        first.prepare()
        for node in others:
            node.format_like(first)
        for node in self.nodes.values():
            self.running.callback(node.kill)
            node.launch()
        try:
            wait_whole(self, SIZE, replicas=0)
        except TimeoutError as late:
            tails = [node.output_tail() for node in self.nodes.values()]
            raise TimeoutError("\n".join([str(late), *tails])) from late

    def kill(self, broker_id: int) -> None:
        self.nodes[broker_id].kill()

    def start_again(self, broker_id: int) -> None:
        self.nodes[broker_id].launch()

    def durability(self, wanted: str) -> Mapping[str, str]:
        return {}  # Kafka has no such topic config: the kernel decides when to sync

    def stop(self) -> None:
        """Ask all to end at the same time: one after another, the last would have no quorum."""
        with ThreadPoolExecutor(len(self.nodes)) as beside_each_other:
            list(beside_each_other.map(_stop_or_kill, self.nodes.values()))


def _stop_or_kill(node: KafkaNode) -> None:
    """Stop a node of a cluster that ends; it is killed if it does not end in time.

    On a busy machine the others may have ended before the controllers could approve its shutdown.
    It then waits for a quorum that does not come back.
    """
    with suppress(subprocess.TimeoutExpired):
        node.stop()
