"""What a fault can affect: the cluster, the operator, and the topic that the clients use."""

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
    """A fault had no effect, so that the run proves nothing."""


def check_effect(what: str, has: object) -> None:
    """Check that a fault had its effect: raises `HadNoEffect` unless `has` is true.

    `what` names the effect in the message.
    """
    if not has:
        raise HadNoEffect(f"the fault had no effect: expected {what}")


@dataclass(slots=True)
class Scene:
    """The context of a fault; the affected broker is chosen at random, with a fixed seed."""

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
        """The ids of all brokers that have replicas of the topic."""
        return sorted({one for place in self.places() for one in place.replicas})

    def led_by(self, broker: int) -> dict[int, int]:
        """Partition -> leader epoch, for the topic's partitions that the broker leads now."""
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
        """The processes of the broker's containers, with their pids on this machine."""
        found = containers.in_pod(self.pod(broker)["metadata"]["uid"])
        check_effect(f"a process of broker {broker}", found)
        return found

    def session(self, broker: int) -> int:
        """The session with which the broker was last admitted; 0 before its first."""
        name = names.broker(self.cluster.name, BrokerId(broker))
        return int(self.cluster.kubectl.get("brk", name)["spec"].get("session", 0))

    def is_fenced(self, broker: int) -> bool:
        """Whether the operator has fenced the broker: declared its session dead."""
        name = names.broker(self.cluster.name, BrokerId(broker))
        return bool(self.cluster.kubectl.get("brk", name)["spec"].get("fenced", False))

    def volume(self, broker: int) -> Path:
        """The directory of the broker's data on this machine."""
        claim = names.volume_claim(self.cluster.name, BrokerId(broker))
        name = self.cluster.kubectl.get("pvc", claim)["spec"]["volumeName"]
        return Path(self.cluster.kubectl.get("pv", name)["spec"]["local"]["path"])

    def wait_admitted(self, broker: int, after: int) -> None:
        """Wait until the broker is admitted again, with a higher session than `after`."""
        eventually(
            f"broker {broker} has a session above {after}",
            lambda: self.session(broker) > after,
            BACK_LIMIT_S,
            POLL_EVERY_S,
        )

    def wait_deposed(self, broker: int, led: dict[int, int]) -> None:
        """Wait until other brokers lead the partitions that this broker led.

        `led` is partition -> leader epoch as of `led_by`; the epoch must be higher now.
        """

        def has_successors() -> bool:
            now = {one.partition: one for one in self.places()}
            return all(
                now[partition].leader not in {None, broker} and now[partition].leader_epoch > epoch
                for partition, epoch in led.items()
            )

        eventually(
            f"broker {broker} leads nothing any more", has_successors, BACK_LIMIT_S, POLL_EVERY_S
        )
