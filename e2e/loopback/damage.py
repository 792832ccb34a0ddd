"""Damages stored bytes of a replica in a `LoopbackCluster`, and waits for the repair."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from chiplog_broker.storage.names import LOG_SUFFIX
from chiplog_core.naming import api
from e2e.kafka.members import leader_of, wait_for, wait_whole
from e2e.loopback.cluster import NAME, SIZE, LoopbackCluster, own_path

Damage: TypeAlias = dict[str, Any]
"""An entry of `damageHistory` in a Broker's status."""


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
        return bool(self._reported()["damaged"])

    def condition(self) -> str:
        """The message of the topic's condition ReplicasDamaged; "" if it has none."""
        found = self.cluster.server.ask("GET", f"{own_path(api.TOPIC)}/{self.topic}")
        conditions = found.get("status", {}).get("conditions", [])
        messages = (str(one["message"]) for one in conditions if one["type"] == "ReplicasDamaged")
        return next(messages, "")

    def last_damage(self, file: str) -> Damage | None:
        """The last damage that the broker found in this file, also if it is repaired; None if there
        was none."""
        path = f"{self.directory.name}/{file}"
        history = self._reported()["damageHistory"]
        return next((one for one in history if one["file"] == path), None)

    def wait_rebuilt(self, file: str, before: Damage | None) -> None:
        """Wait until new damage in this file is reported, and then repaired.

        `before` is what `last_damage` returned before the file was damaged. The topic's condition
        names the damage only while it lasts, which may be shorter than the operator takes to look:
        what the broker has found stays in its history.

        Raises `AssertionError` if the damaged replica leads, `TimeoutError` if nothing is reported.
        """
        where = f"{self.directory.name}/{file}"
        expected = f"partition {self.partition} on broker {self.broker_id} is damaged in {where}"

        def found() -> Damage | None:
            last = self.last_damage(file)
            is_new = last is not None and (before is None or _facts(last) != _facts(before))
            return last if is_new else None

        def is_named_or_repaired() -> bool:
            last = found()
            return expected in self.condition() or (last is not None and "wholeAt" in last)

        wait_for(f"broker {self.broker_id} finds damage in {where}", lambda: found() is not None)
        wait_for(f"the condition says: {expected}", is_named_or_repaired)
        wait_for("another broker leads", lambda: self._leader() != "" and not self.leads())

        def is_repaired() -> bool:
            leads, is_damaged = self.leads(), self.is_damaged()
            assert not (leads and is_damaged), "a damaged replica leads"
            return not is_damaged

        wait_for(f"the replica of broker {self.broker_id} is repaired", is_repaired)
        wait_for("the condition is gone", lambda: self.condition() == "")
        wait_whole(self.cluster, SIZE, replicas=SIZE)

    def _reported(self) -> dict[str, Any]:
        """The broker's data directory as its status describes it."""
        found = self.cluster.server.ask("GET", f"{own_path(api.BROKER)}/{NAME}-{self.broker_id}")
        directory: dict[str, Any]
        (directory,) = found["status"]["directories"]
        return {"damaged": [], "damageHistory": [], **directory}

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


def _facts(damage: Damage) -> Damage:
    """What does not change when the damage is repaired."""
    return {name: value for name, value in damage.items() if name != "wholeAt"}


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
