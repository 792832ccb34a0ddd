"""What a fault is done to: the cluster, the operator, and one topic with clients at work on it."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from e2e.cluster import containers, layout
from e2e.cluster.kubectl import eventually
from e2e.cluster.layout import Node
from e2e.cluster.processes import Process
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.operator import Operator
from e2e.main.replicas import Place, places, pod_of

BACK_LIMIT_S = 120
POLL_EVERY_S = 0.5


class HadNoEffect(AssertionError):  # noqa: N818 - the sentence reads better without
    """A fault had no effect: what clients saw of it proves nothing."""


def check_effect(what: str, has: object) -> None:
    """The self-test of a fault. Raises `HadNoEffect` unless `has`."""
    if not has:
        raise HadNoEffect(f"the fault had no effect: not {what}")


@dataclass(slots=True)
class Scene:
    """All that faults need to know; who is hit is drawn by chance."""

    cluster: BrokerClusterUnderTest
    operator: Operator
    topic: str
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311

    def places(self) -> list[Place]:
        """The topic's partitions."""
        return places(self.cluster, self.topic)

    def some_leader(self) -> int:
        """A broker that leads a partition of the topic."""
        return self.chance.choice([one.leader for one in self.places() if one.leader is not None])

    def brokers(self) -> list[int]:
        """All of them, by their ids."""
        return sorted({one for place in self.places() for one in place.replicas})

    def led_by(self, broker: int) -> dict[int, int]:
        """Partition -> epoch, of those that a broker leads."""
        return {one.partition: one.leader_epoch for one in self.places() if one.leader == broker}

    def pod(self, broker: int) -> Manifest:
        found: Manifest = self.cluster.kubectl.get("pod", pod_of(self.cluster, broker))
        return found

    def ip(self, broker: int) -> str:
        return str(self.pod(broker)["status"]["podIP"])

    def node(self, broker: int) -> Node:
        """The node a broker's pod is on."""
        name = self.pod(broker)["spec"]["nodeName"]
        return next(one for one in layout.NODES if one.name == name)

    def processes(self, broker: int) -> list[Process]:
        """The processes of the broker's container, by this machine's ids."""
        found = containers.in_pod(self.pod(broker)["metadata"]["uid"])
        check_effect(f"true that broker {broker} had a process to hit", found)
        return found

    def session(self, broker: int) -> int:
        """The session a broker was admitted to last."""
        name = names.broker(self.cluster.name, BrokerId(broker))
        return int(self.cluster.kubectl.get("brk", name)["spec"].get("session", 0))

    def is_fenced(self, broker: int) -> bool:
        """Whether the operator counts it as gone."""
        name = names.broker(self.cluster.name, BrokerId(broker))
        return bool(self.cluster.kubectl.get("brk", name)["spec"].get("fenced", False))

    def volume(self, broker: int) -> Path:
        """The directory of the broker's data on this machine."""
        claim = names.volume_claim(self.cluster.name, BrokerId(broker))
        name = self.cluster.kubectl.get("pvc", claim)["spec"]["volumeName"]
        return Path(self.cluster.kubectl.get("pv", name)["spec"]["local"]["path"])

    def wait_admitted(self, broker: int, after: int) -> None:
        """Wait until a broker is back, in a later session than `after`."""
        eventually(
            f"broker {broker} has a session after {after}",
            lambda: self.session(broker) > after,
            BACK_LIMIT_S,
            POLL_EVERY_S,
        )

    def wait_deposed(self, broker: int, led: dict[int, int]) -> None:
        """Wait until all that a broker led has another leader, in a later epoch."""

        def has_successors() -> bool:
            now = {one.partition: one for one in self.places()}
            return all(
                now[partition].leader not in {None, broker} and now[partition].leader_epoch > epoch
                for partition, epoch in led.items()
            )

        eventually(
            f"broker {broker} leads nothing any more", has_successors, BACK_LIMIT_S, POLL_EVERY_S
        )
