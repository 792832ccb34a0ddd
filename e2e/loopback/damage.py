"""Damages stored bytes of a replica in a `LoopbackCluster`, and waits for the repair."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chiplog_broker.storage.names import LOG_SUFFIX
from chiplog_core.naming import api
from e2e.kafka.members import leader_of, wait_for, wait_whole
from e2e.loopback.cluster import NAME, SIZE, LoopbackCluster, own_path


@dataclass(frozen=True, slots=True)
class Replica:
    """One partition's replica on one broker."""

    cluster: LoopbackCluster
    topic: str
    partition: int
    broker_id: int

    @property
    def directory(self) -> Path:
        return self.cluster.volume(self.broker_id) / "data" / f"{self.topic}-{self.partition}"

    def segments(self) -> list[Path]:
        """The segment files, the newest last."""
        return sorted(self.directory.glob(f"*{LOG_SUFFIX}"))

    def leads(self) -> bool:
        return self._leader().startswith(f"{self.broker_id}@")

    def is_damaged(self) -> bool:
        """Whether the broker reports any replica of its own as damaged."""
        found = self.cluster.server.ask("GET", f"{own_path(api.BROKER)}/{NAME}-{self.broker_id}")
        return any(one.get("damaged") for one in found["status"]["directories"])

    def condition(self) -> str:
        """The message of the topic's condition ReplicasDamaged; "" if it has none."""
        found = self.cluster.server.ask("GET", f"{own_path(api.TOPIC)}/{self.topic}")
        conditions = found.get("status", {}).get("conditions", [])
        messages = (str(one["message"]) for one in conditions if one["type"] == "ReplicasDamaged")
        return next(messages, "")

    def wait_rebuilt(self, file: str) -> None:
        """Wait until damage in this file is reported, and then repaired.

        Raises `AssertionError` if the damaged replica leads, `TimeoutError` if nothing is reported.
        """
        where = f"{self.directory.name}/{file}"
        expected = f"partition {self.partition} on broker {self.broker_id} is damaged in {where}"
        wait_for(f"the condition says: {expected}", lambda: expected in self.condition())
        wait_for("another broker leads", lambda: self._leader() != "" and not self.leads())

        def is_repaired() -> bool:
            leads, is_damaged = self.leads(), self.is_damaged()
            assert not (leads and is_damaged), "a damaged replica leads"
            return not is_damaged

        wait_for(f"the replica of broker {self.broker_id} is repaired", is_repaired)
        wait_for("the condition is gone", lambda: self.condition() == "")
        wait_whole(self.cluster, SIZE, replicas=SIZE)

    def _leader(self) -> str:
        """The partition's leader in the PartitionMap as ID@SESSION; "" if there is none."""
        path = f"{own_path(api.PARTITION_MAP)}/{NAME}.{self.topic}"
        states: list[dict[str, Any]]
        states = self.cluster.server.ask("GET", path)["spec"]["generations"][0]["partitions"]
        return str(states[self.partition].get("leader", ""))


def replicas(cluster: LoopbackCluster, topic: str, partition: int) -> tuple[Replica, list[Replica]]:
    """The leader's replica of a partition, and those of the followers."""
    leader = leader_of(cluster, topic, partition)
    return Replica(cluster, topic, partition, leader), [
        Replica(cluster, topic, partition, one) for one in cluster.brokers if one != leader
    ]


def flip_a_bit(path: Path, chance: random.Random, within: range | None = None) -> int:
    """Flip a random bit of a file, or of the byte positions `within`; returns the byte's
    position."""
    at = chance.choice(within or range(path.stat().st_size))
    with path.open("r+b") as file:
        file.seek(at)
        (before,) = file.read(1)
        file.seek(at)
        file.write(bytes([before ^ 1 << chance.randrange(8)]))
    return at
