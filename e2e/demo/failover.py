"""A step of the demo: a leader is killed while orders are sent, and no acknowledged order is
lost."""

import time

from rich.table import Table

from e2e.cluster.console import console, step
from e2e.cluster.target import current_target
from e2e.demo import topic
from e2e.demo.checking import LIMIT_S, Broken, until
from e2e.demo.first_program import progress
from e2e.demo.load import Load
from e2e.demo.topic import PARTITIONS, TOPIC
from e2e.main import replicas
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.replicas import Place

PARTITION = 0
BEFORE, AFTER = 300, 300
"""Orders that must be acknowledged before the kill, and after all replicas are in sync again."""
NAME = f"{TOPIC}-{PARTITION}"


def kill_leader(cluster: BrokerClusterUnderTest, before: list[int], texts: list[str]) -> None:
    """Kill the leader of `orders-0` under load, and check that no acknowledged order is lost.

    `texts` are the records that the topic has now from the offsets `before` on.
    """
    with step("waiting until all replicas are in sync"):
        replicas.wait_in_sync(cluster, LIMIT_S)
    describe(observed(cluster), "before")
    with Load(cluster.bootstrap, first_number=len(texts)) as load:
        acknowledged(load, BEFORE)
        led = until(f"{NAME} has a leader", lambda: leading(cluster))
        killed_s = time.monotonic()
        how = kill(cluster, led)
        console.print(f"{how}: killed broker {led.leader}, the leader of {NAME}")
        with step(f"waiting until {NAME} has another leader epoch"):
            after = until(
                f"{NAME} with a leader epoch above {led.leader_epoch}",
                lambda: later(cluster, led.leader_epoch),
            )
        describe(after, "after the kill")
        with step("waiting until the broker runs and all replicas are in sync again"):
            replicas.wait_in_sync(cluster, LIMIT_S)
        in_sync_s = time.monotonic() - killed_s
        describe(observed(cluster), f"{in_sync_s:.0f} s after the kill")
        acknowledged(load, len(load.acknowledged) + AFTER)
    require_none_refused(load)
    gap_s = load.gap_s(PARTITION, killed_s)
    console.print(
        f"no order in {NAME} was acknowledged for {gap_s:.2f} s; "
        f"all replicas of broker {led.leader} were in sync again after {in_sync_s:.0f} s"
    )
    console.print(
        f"{len(load.acknowledged)} orders were acknowledged in this step, none was refused"
    )
    topic.check_texts(cluster.bootstrap, before, [*texts, *(one.text for one in load.acknowledged)])


def acknowledged(load: Load, count: int) -> None:
    """Wait until `count` orders are acknowledged; raises `Broken` as soon as one is refused."""
    with progress() as bars:
        bar = bars.add_task("orders acknowledged", total=count)

        def enough() -> None:
            require_none_refused(load)
            bars.update(bar, completed=len(load.acknowledged))
            assert len(load.acknowledged) >= count, f"{len(load.acknowledged)} orders"

        until(f"{count} orders are acknowledged", enough, every_s=0.1)


def require_none_refused(load: Load) -> None:
    """Raise `Broken` if the producer got an error for an order."""
    if load.refused:
        raise Broken(
            expected="every order is acknowledged, since two of three brokers run all the time",
            found=f"{len(load.refused)} orders refused; the first error: {load.refused[0]}",
        )


def leading(cluster: BrokerClusterUnderTest) -> Place:
    """The partition by its PartitionMap; raises `AssertionError` if it has no leader."""
    place = replicas.places(cluster, TOPIC)[PARTITION]
    assert place.leader is not None, f"{NAME} has no leader"
    return place


def kill(cluster: BrokerClusterUnderTest, led: Place) -> str:
    """Kill the leader without a graceful handover; returns the method as text.

    Only on the local cluster its process can be killed; elsewhere its pod is deleted.
    """
    assert led.leader is not None, f"{NAME} has no leader"
    if current_target().has_faults:
        replicas.kill(cluster, led.leader)
        return "kill -9"
    pod = replicas.pod_of(cluster, led.leader)
    cluster.kubectl("delete", "pod", pod, "--now", "--wait=false")
    return f"kubectl delete pod {pod} --now"


def observed(cluster: BrokerClusterUnderTest) -> list[Place]:
    """The topic's partitions by the PartitionMap, once kcat gets the same leaders and ISRs."""
    return until("kcat gets the same leaders as the PartitionMap", lambda: agreed(cluster))


def later(cluster: BrokerClusterUnderTest, leader_epoch: int) -> list[Place]:
    """As `agreed`; raises `AssertionError` unless the partition has a higher leader epoch.

    The ISR may or may not have the killed broker: it may already be back.
    """
    places = agreed(cluster)
    found = places[PARTITION].leader_epoch
    assert found > leader_epoch, f"leader epoch {found}"
    return places


def agreed(cluster: BrokerClusterUnderTest) -> list[Place]:
    """The topic's partitions by the PartitionMap; raises `AssertionError` if kcat gets others."""
    places = replicas.places(cluster, TOPIC)
    answer = client_metadata(cluster.bootstrap, TOPIC)
    of_map = {one.partition: (one.leader, set(one.in_sync)) for one in places}
    leaders, in_sync = answer.leaders[TOPIC], answer.in_sync[TOPIC]
    of_kcat = {number: (leaders[number], set(in_sync[number])) for number in range(PARTITIONS)}
    assert of_kcat == of_map, (
        f"(leader, ISR) by partition: kcat gets {of_kcat}, the PartitionMap has {of_map}"
    )
    return places


def describe(places: list[Place], when: str) -> None:
    """Print the topic as `kafka-topics.sh --describe` does; `when` is part of the title."""
    table = Table("Partition", "Leader", "Replicas", "Isr", title=f"{TOPIC}, {when}")
    for one in places:
        table.add_row(
            str(one.partition),
            "none" if one.leader is None else str(one.leader),
            ",".join(map(str, one.replicas)),
            ",".join(map(str, one.in_sync)),
        )
    console.print(table)
    console.print("kcat gets the same leaders and in-sync replicas")
