"""A leader is killed while orders come in: what is seen of it, and what is lost."""

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
"""So many orders are acknowledged before the kill, and after all is whole again."""
NAME = f"{TOPIC}-{PARTITION}"


def kill_leader(cluster: BrokerClusterUnderTest, before: list[int], texts: list[str]) -> None:
    """Kill the leader of `orders-0` under load, and check that everything is there.

    `texts` are the records that were in the topic after the offsets `before`.
    """
    with step("waiting until all replicas are in sync"):
        replicas.wait_in_sync(cluster, LIMIT_S)
    describe(observed(cluster), "before")
    with Load(cluster.bootstrap, first_number=len(texts)) as load:
        acknowledged(load, BEFORE)
        led = until(f"{NAME} has a leader", lambda: leading(cluster))
        killed_s = time.monotonic()
        how = kill(cluster, led)
        console.print(f"{how}: broker {led.leader}, which leads {NAME}")
        with step(f"waiting until {NAME} has another leader epoch"):
            seen = until(
                f"{NAME} with a leader epoch above {led.leader_epoch}",
                lambda: later(cluster, led.leader_epoch),
            )
        describe(seen, "after it")
        with step("waiting until the broker is back and all replicas are in sync again"):
            replicas.wait_in_sync(cluster, LIMIT_S)
        whole_s = time.monotonic() - killed_s
        describe(observed(cluster), f"{whole_s:.0f} s after the kill")
        acknowledged(load, len(load.acknowledged) + AFTER)
    require_none_refused(load)
    gap_s = load.gap_s(PARTITION, killed_s)
    console.print(
        f"for {gap_s:.2f} s no order in {NAME} was acknowledged; "
        f"broker {led.leader} was in sync with everything again after {whole_s:.0f} s"
    )
    console.print(
        f"{len(load.acknowledged)} orders were acknowledged during this time, none was refused"
    )
    topic.check_texts(cluster.bootstrap, before, [*texts, *(one.text for one in load.acknowledged)])


def acknowledged(load: Load, count: int) -> None:
    """Wait until so many orders are acknowledged; raises `Broken` as soon as one is refused."""
    with progress() as bars:
        bar = bars.add_task("orders acknowledged", total=count)

        def enough() -> None:
            require_none_refused(load)
            bars.update(bar, completed=len(load.acknowledged))
            assert len(load.acknowledged) >= count, f"{len(load.acknowledged)} are"

        until(f"{count} orders are acknowledged", enough, every_s=0.1)


def require_none_refused(load: Load) -> None:
    """Raise `Broken` where a producer got an error for an order."""
    if load.refused:
        raise Broken(
            expected="every order to be acknowledged, as two of three brokers serve all the time",
            found=f"{len(load.refused)} refused; the first: {load.refused[0]}",
        )


def leading(cluster: BrokerClusterUnderTest) -> Place:
    """The partition as its map has it now; raises `AssertionError` where nobody leads it."""
    place = replicas.places(cluster, TOPIC)[PARTITION]
    assert place.leader is not None, f"nobody leads {NAME}"
    return place


def kill(cluster: BrokerClusterUnderTest, led: Place) -> str:
    """End the leader without letting it hand over; returns how."""
    assert led.leader is not None, f"nobody leads {NAME}"
    if current_target().has_faults:
        replicas.kill(cluster, led.leader)
        return "kill -9"
    pod = replicas.pod_of(cluster, led.leader)
    cluster.kubectl("delete", "pod", pod, "--now", "--wait=false")
    return f"kubectl delete pod {pod} --now"


def observed(cluster: BrokerClusterUnderTest) -> list[Place]:
    """The topic by its map, once kcat gets the same leaders and in-sync replicas."""
    return until("kcat gets the same leaders as the PartitionMap", lambda: agreed(cluster))


def later(cluster: BrokerClusterUnderTest, leader_epoch: int) -> list[Place]:
    """The same places, once there is a leader in a later epoch.

    Which replicas are in sync then depends on who is quicker, this check or the broker's return.
    """
    places = agreed(cluster)
    found = places[PARTITION].leader_epoch
    assert found > leader_epoch, f"leader epoch {found}"
    return places


def agreed(cluster: BrokerClusterUnderTest) -> list[Place]:
    """The topic by its map; raises `AssertionError` where kcat gets something else."""
    places = replicas.places(cluster, TOPIC)
    answer = client_metadata(cluster.bootstrap, TOPIC)
    of_map = {one.partition: (one.leader, set(one.in_sync)) for one in places}
    leaders, in_sync = answer.leaders[TOPIC], answer.in_sync[TOPIC]
    of_kcat = {number: (leaders[number], set(in_sync[number])) for number in range(PARTITIONS)}
    assert of_kcat == of_map, f"kcat is told {of_kcat}, the PartitionMap says {of_map}"
    return places


def describe(places: list[Place], when: str) -> None:
    """The topic as `kafka-topics.sh --describe` shows it; kcat got the same."""
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
