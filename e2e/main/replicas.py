"""Who leads and who is in sync, as a PartitionMap says it, and waiting until all is whole again."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from e2e.cluster import containers
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest

# A killed container comes back after 11 to 16 seconds; then it has to copy what it missed.
WHOLE_LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Place:
    """One partition and where it lies; all brokers by their ids."""

    partition: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int | None
    leader_epoch: int

    @property
    def is_whole(self) -> bool:
        """Every replica is in sync, and one of them leads."""
        return sorted(self.in_sync) == sorted(self.replicas) and self.leader is not None

    @property
    def is_preferred(self) -> bool:
        """Whole, and led by the first of its replicas."""
        return self.is_whole and self.leader == self.replicas[0]


def place(state: Manifest) -> Place:
    """The place of one partition from its entry in a PartitionMap, where replicas are written
    `id@session`."""
    leader = state.get("leader")
    return Place(
        partition=int(state["partition"]),
        replicas=tuple(int(one) for one in state["replicas"]),
        in_sync=tuple(broker_of(one) for one in state["isr"]),
        leader=None if leader is None else broker_of(leader),
        leader_epoch=int(state["leaderEpoch"]),
    )


def broker_of(reference: str) -> int:
    return int(reference.partition("@")[0])


def places(cluster: BrokerClusterUnderTest, topic: str) -> list[Place]:
    """Every partition of a topic, in order."""
    return sorted(map(place, cluster.partitions_of(topic)), key=lambda one: one.partition)


def leader_of(cluster: BrokerClusterUnderTest, topic: str, partition: int) -> int:
    """The broker that leads it now."""
    leader = places(cluster, topic)[partition].leader
    assert leader is not None, f"{topic}-{partition} has no leader"
    return leader


def pod_of(cluster: BrokerClusterUnderTest, broker: int) -> str:
    return f"{cluster.name}-broker-{broker}-0"


def kill(cluster: BrokerClusterUnderTest, broker: int) -> None:
    """kill -9 of a broker's container, past Kubernetes; returns when the process is gone."""
    uid = cluster.broker_pods()[pod_of(cluster, broker)].uid
    assert containers.kill(uid), f"broker {broker} has no process"


def wait_in_sync(cluster: BrokerClusterUnderTest, limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until every partition of every topic is whole; returns seconds.

    Leaderships stay where they are: they go back after half a minute of rest.
    """
    is_whole = partial(every_place, cluster, lambda one: one.is_whole)
    return eventually("all replicas are in sync", is_whole, limit_s, every_s=0.5)


def wait_preferred(cluster: BrokerClusterUnderTest, limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until nothing is left to move by itself; returns seconds."""
    is_preferred = partial(every_place, cluster, lambda one: one.is_preferred)
    return eventually("preferred replicas lead", is_preferred, limit_s, every_s=0.5)


def every_place(cluster: BrokerClusterUnderTest, holds: Callable[[Place], bool]) -> bool:
    """True; raises `AssertionError` with the first places for which it does not hold."""
    others = [
        f"{one['spec']['topicName']}: {found}"
        for one in cluster.own("pmap")
        for generation in one["spec"].get("generations", ())
        if generation["topicId"] == one["spec"].get("current")
        for found in map(place, generation["partitions"])
        if not holds(found)
    ]
    assert not others, others[:5]
    return True
