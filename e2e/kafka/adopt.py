"""Start Apache Kafka on a copy of a log directory that another broker wrote.

A Kafka broker takes a partition's directory for its own, and serves it rightly, only if:

* `meta.properties` names the cluster and the node it runs as. The reference broker
  takes both from the copy; nothing in the copy is rewritten.
* the cluster metadata has a topic of that name with the id in `partition.metadata`.
  A client cannot choose a topic's id, so the topics are written into the records the
  controller begins with (`sources/AddTopics.java`), beside the copy.
* new producers get ids that no producer in the logs has; those are begun high up.
* its leader epoch is not below the last one in `leader-epoch-checkpoint`; otherwise
  the broker would forget the later epochs.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from e2e.cluster.shell import run
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import read_properties

ADD_TOPICS = Path(__file__).with_name("sources") / "AddTopics.java"


@dataclass(frozen=True, slots=True)
class Stored:
    """One partition as the files of a log directory describe it."""

    topic_id: str
    topic: str
    number: int
    leader_epoch: int


def stored(logs: Path) -> Iterator[Stored]:
    """Every partition of a log directory."""
    for known in sorted(logs.glob("*-*/partition.metadata")):
        topic, _, number = known.parent.name.rpartition("-")
        if number.isdigit():
            # "version: 0" and "topic_id: …", one a line.
            lines = (line.partition(":") for line in known.read_text().splitlines())
            topic_id = {name.strip(): value.strip() for name, _, value in lines}["topic_id"]
            yield Stored(topic_id, topic, int(number), last_epoch(known.parent))


def last_epoch(partition: Path) -> int:
    """The last leader epoch in a partition's `leader-epoch-checkpoint`; 0 if it has none."""
    checkpoint = partition / "leader-epoch-checkpoint"
    # Two lines come first: the format's version and the number of entries.
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return int(lines[-1].split()[0]) if lines else 0


class AdoptingBroker(KafkaBroker):
    """Apache Kafka on a copy of the log directory `original`, whose broker has ended."""

    # With eligible leader replicas, a controller that meets a broker for the first time
    # takes it for one that crashed, and strikes it from every list of in-sync replicas.
    format_options: ClassVar[tuple[str, ...]] = ("--feature", "eligible.leader.replicas.version=0")

    def __init__(self, directory: Path, original: Path) -> None:
        super().__init__(directory)
        shutil.copytree(original, self.logs, symlinks=True)

    def prepare(self) -> None:
        first_time = not self.metadata_directory.exists()
        super().prepare()
        if first_time:
            self.add_topics()

    def add_topics(self) -> None:
        """Add the copy's topics, with their ids and leader epochs, to the cluster metadata."""
        identity = read_properties(self.logs / "meta.properties")
        listing = self.directory / "topics.tsv"
        lines = (
            f"{p.topic_id}\t{p.topic}\t{p.number}\t{p.leader_epoch}\n" for p in stored(self.logs)
        )
        listing.write_text("".join(lines))
        run(
            *java("AddTopics", SHORT_LIVED, compiled(ADD_TOPICS)),
            *(str(self.metadata_directory), identity["node.id"], identity["directory.id"]),
            str(listing),
        )
