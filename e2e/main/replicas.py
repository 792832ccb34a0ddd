"""Leaders and in-sync replicas from PartitionMaps, and waiting until all replicas are in sync."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from e2e.cluster import containers
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest

# A killed container is restarted after 11 to 16 seconds; then its replicas must catch up.
WHOLE_LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Place:
    """One partition's replicas, ISR and leader, as broker ids."""

    partition: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int | None
    leader_epoch: int

    @property
    def is_whole(self) -> bool:
        """Whether every replica is in sync and one of them leads."""
        return sorted(self.in_sync) == sorted(self.replicas) and self.leader is not None

    @property
    def is_preferred(self) -> bool:
        """Whether every replica is in sync and the preferred one leads."""
        return self.is_whole and self.leader == self.replicas[0]


def place(state: Manifest) -> Place:
    """Parse a partition's entry of a PartitionMap, in which leader and ISR are written
    ID@SESSION."""
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
    """The id of the partition's leader; raises `AssertionError` if it has none."""
    leader = places(cluster, topic)[partition].leader
    assert leader is not None, f"{topic}-{partition} has no leader"
    return leader


def pod_of(cluster: BrokerClusterUnderTest, broker: int) -> str:
    return f"{cluster.name}-broker-{broker}-0"


def kill(cluster: BrokerClusterUnderTest, broker: int) -> None:
    """Kill a broker's processes (SIGKILL) without Kubernetes; returns when they are gone."""
    uid = cluster.broker_pods()[pod_of(cluster, broker)].uid
    assert containers.kill(uid), f"broker {broker} has no process to kill"


def wait_in_sync(cluster: BrokerClusterUnderTest, limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until all replicas of all topics are in sync and every partition has a leader.

    Returns the seconds it took. Preferred leaders are elected only half a minute later: see
    `wait_preferred`.
    """
    is_whole = partial(every_place, cluster, lambda one: one.is_whole)
    return eventually("all replicas are in sync", is_whole, limit_s, every_s=0.5)


def wait_preferred(cluster: BrokerClusterUnderTest, limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until all replicas are in sync and all preferred leaders lead; returns seconds."""
    is_preferred = partial(every_place, cluster, lambda one: one.is_preferred)
    return eventually("preferred replicas lead", is_preferred, limit_s, every_s=0.5)


def every_place(cluster: BrokerClusterUnderTest, holds: Callable[[Place], bool]) -> bool:
    """Whether `holds` is true for every partition of all topics.

    Never returns False: raises `AssertionError` with the first partitions for which it is not true.
    """
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
